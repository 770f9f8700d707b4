"""The workers of a key-shared queue and their broker, killed with SIGKILL again and again: messages of
one key stay in order, at one worker at a time, and none is lost.

A worker settles each message before it takes the next one, and nacks one in seven. So a message that
it says to ack is its own for certain, and those behind one that it nacks never come to it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring.aio
from bowstring import errors
from tests.process.killing import TOPIC, Crew, Hold, Line, held, worked_off

KEYS = 12
AHEAD_MAX = 300
"""So many messages wait at most."""

Place = tuple[int, int]


class KeyedStream:
    """A producer of messages with keys, and what it has stored."""

    def __init__(self, address: str, crew: Crew, source: random.Random) -> None:
        del source
        self._address = address
        self._crew = crew
        self.keys: dict[Place, str] = {}
        self.over = False

    async def run(self) -> None:
        async with bowstring.aio.connect(self._address, timeout=30) as client, client.producer(TOPIC, timeout=60) as producer:
            numbers = itertools.count()
            while not self.over:
                while len(self.keys) - self._crew.begun() > AHEAD_MAX:
                    await self._crew.acks(1)
                keys = [f"k{number % KEYS}" for number in itertools.islice(numbers, 20)]
                receipts = [producer.send(os.urandom(100), key=key) for key in keys]
                for key, outcome in zip(keys, await asyncio.gather(*receipts, return_exceptions=True), strict=True):
                    if not isinstance(outcome, errors.Error):
                        assert not isinstance(outcome, BaseException), outcome
                        self.keys[outcome.partition, outcome.offset] = key


def broken_orders(lines: list[Line], keys: dict[Place, str]) -> Iterator[str]:
    """What is wrong with what the workers were given, by key."""
    holds = held(lines)
    by_key: dict[tuple[int, str], dict[int, dict[int, list[Hold]]]] = defaultdict(lambda: defaultdict(dict))
    for place, key in keys.items():
        some = holds.get(place, [])
        if not any(hold.acking for hold in some):
            yield f"{place} of key {key} was stored, and nobody has acked it"
        for before, after in itertools.pairwise(some):
            if before.acked:
                yield f"{place} came again by grant {after.grant}, after {before.name} had acked it by grant {before.grant}"
        for hold in some:
            by_key[place[0], key][hold.grant].setdefault(place[1], []).append(hold)
    for (partition, key), grants in by_key.items():
        for case in _of_key(grants):
            yield f"key {key} in partition {partition}: {case}"


def _of_key(grants: dict[int, dict[int, list[Hold]]]) -> Iterator[str]:
    numbers = sorted(grants)
    lasts: dict[int, int] = {}
    for number in numbers:
        for offset in grants[number]:
            lasts[offset] = number
    for number, rows in grants.items():
        for offset, last in lasts.items():
            if last > number and offset not in rows and offset < max(rows):
                yield f"offset {max(rows)} came by grant {number}, and {offset} after it, by grant {last}"
    for before, after in itertools.pairwise(numbers):
        granted = min(hold.granted for some in grants[after].values() for hold in some)
        over = False
        for offset, some in sorted(grants[before].items()):
            over |= any(hold.nacked_at < float("inf") or hold.end <= granted for hold in some)
            if not over and not any(hold.acking for hold in some):
                yield f"grant {after} came while {some[-1].name} held offset {offset} by grant {before}"


@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.long)])
async def test_keys_stay_in_order_when_broker_and_workers_are_killed(tmp_path: Path, kills: int) -> None:
    stream, lines = await worked_off(tmp_path, "keys", kills, KeyedStream, mode="key_shared", gathered=1)
    assert len(stream.keys) > 5 * kills
    assert list(broken_orders(lines, stream.keys)) == []


def test_orders_are_told_apart_from_what_breaks_them():
    def line(kind: str, offset: int, grant: int, end: float, name: str = "a") -> Line:
        row = [0, offset, grant, round(end * 1e6)]
        return {"kind": kind, "at": end - 1, "rows": [row], "name": name, "process": ord(name), "retry_count": 0}

    def told(*lines: Line, stored: int = 2) -> str:
        return "; ".join(broken_orders([*lines], {(0, offset): "k" for offset in range(1, stored + 1)}))

    def done(offset: int, grant: int, end: float, name: str = "a") -> list[Line]:
        return [line(kind, offset, grant, end, name) for kind in ("got", "acking", "acked")]

    nacked = [line("got", 1, 1, 2.0), line("nacking", 1, 1, 2.0)]
    assert not told(*done(1, 1, 2.0), *done(2, 1, 2.0))
    assert not told(*nacked, *done(1, 2, 2.5, "b"), *done(2, 2, 2.5, "b"))
    assert "nobody has acked it" in told(*done(1, 1, 2.0))
    assert "offset 2 came by grant 1, and 1 after it" in told(*done(2, 1, 2.0), *done(1, 2, 2.5))
    assert "after it" in told(*nacked, *done(2, 2, 2.5, "b"), *done(1, 3, 2.6, "b"))
    assert "grant 2 came while a held offset 1" in told(line("got", 1, 1, 2.0), *done(2, 2, 2.5, "b"), *done(1, 2, 2.5, "b"))
    assert not told(line("got", 1, 1, 2.0), *done(1, 2, 3.1, "b"), *done(2, 2, 3.1, "b")), "the lease had ended"
    assert "after a had acked it" in told(*done(1, 1, 2.0), *done(1, 2, 3.5), *done(2, 2, 3.5))
