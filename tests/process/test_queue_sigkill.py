"""The workers of a queue and their broker, killed with SIGKILL again and again: no message is lost, and none is worked on by two."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring.aio
from bowstring import errors
from tests.process.killing import TOPIC, Crew, Hold, Line, held, worked_off


class Stream:
    """A producer that goes on until it is told to stop, and what it has stored."""

    def __init__(self, address: str, crew: Crew, source: random.Random) -> None:
        del crew, source
        self._address = address
        self.stored: set[tuple[int, int]] = set()
        self.over = False

    async def run(self) -> None:
        async with bowstring.aio.connect(self._address, timeout=30) as client, client.producer(TOPIC, timeout=60) as producer:
            while not self.over:
                receipts = [producer.send(os.urandom(100)) for _ in range(20)]
                for outcome in await asyncio.gather(*receipts, return_exceptions=True):
                    if isinstance(outcome, errors.Error):
                        continue
                    assert not isinstance(outcome, BaseException), outcome
                    self.stored.add((outcome.partition, outcome.offset))


def broken_promises(lines: list[Line], stored: set[tuple[int, int]]) -> Iterator[str]:
    """What is wrong with what the workers were given."""
    holds = held(lines)
    for place, some in holds.items():
        for before, after in itertools.pairwise(some):
            yield from _of_two(place, before, after)
    for place in sorted(stored - {place for place, some in holds.items() if any(hold.acking for hold in some)}):
        yield f"{place} was stored, and nobody has acked it"


def _of_two(place: tuple[int, int], before: Hold, after: Hold) -> Iterator[str]:
    """Two holds of one message, one after the other."""
    if before.acked:
        yield f"{place} came again by grant {after.grant} to {after.name}, after {before.name} had acked it by grant {before.grant}"
    same = before.is_passed_on_as(after)
    if not same and not before.is_over_before(after):
        early = (before.end - after.granted) / 1e6
        yield f"{place} was granted to {after.name} {early:.6f} s before the lease of {before.name} had ended"
    if after.retry_count < before.retry_count + (not same):
        yield f"{place} came with retry count {after.retry_count} after {before.retry_count}"


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.long)])
async def test_no_message_is_lost_or_worked_on_twice_when_broker_and_workers_are_killed(tmp_path: Path, kills: int) -> None:
    stream, lines = await worked_off(tmp_path, "bowstring", kills, Stream)
    assert len(stream.stored) > 5 * kills
    assert list(broken_promises(lines, stream.stored)) == []


def test_the_promises_are_told_apart_from_what_breaks_them():
    def line(kind: str, at: float, end: float, name: str, retry_count: int = 0, process: int | None = None) -> Line:
        row = [0, 1, retry_count + 1, round(end * 1e6)]
        return {"kind": kind, "at": at, "rows": [row], "name": name, "process": process or ord(name), "retry_count": retry_count}

    def told(*lines: Line, stored: bool = False) -> str:
        return "; ".join(broken_promises([*lines], {(0, 1)} if stored else set()))

    got, nacked = line("got", 1.0, 2.0, "a"), line("nacking", 1.1, 2.0, "a")
    again, acking, acked = line("got", 1.2, 2.2, "b", 1), line("acking", 1.25, 2.2, "b"), line("acked", 1.3, 2.2, "b")
    assert not told(got, nacked, again, acking, acked, stored=True)
    assert "nobody has acked it" in told(got, nacked, again, stored=True)
    assert "0.800000 s before the lease of a had ended" in told(got, again, acking, acked)
    assert "after b had acked it" in told(got, nacked, again, acking, acked, line("got", 9.0, 10.0, "c", 2))
    uncounted = line("got", 9.0, 10.0, "c", 2) | {"retry_count": 1}
    assert "retry count 1 after 1" in told(got, nacked, again, uncounted)

    prefetched = line("got", 1.9, 2.0, "a")
    assert not told(prefetched, line("got", 2.01, 3.0, "b", 1)), "the lease began when it was granted, long before the program got it"
    assert "0.000001 s before" in told(prefetched, line("got", 2.01, 2.999999, "b", 1))
    late = line("got", 2.5, 2.0, "a")
    assert not told(late, line("got", 2.01, 3.0, "b", 1)), "the worker stood still before it wrote"
    longer = line("acking", 1.7, 2.6, "a")
    assert "0.600000 s before" in told(got, longer, line("got", 2.1, 3.0, "b", 1)), "the lease was extended"
    assert not told(got, line("got", 1.5, 2.0, "a", process=1)), "another process took the name over, and its leases"
    assert not told(got, nacked, line("got", 1.5, 2.0, "a", process=1)), "the first was killed before the broker had its word"
    assert "before the lease of a had ended" in told(got, line("got", 1.5, 2.0, "a")), "the same process got it twice"
