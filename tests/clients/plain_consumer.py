"""A consumer in plain Python, written from docs/protocol.md alone, on the frames of `plain_client`.

consumer = PlainConsumer("localhost", 27769, topic=b"orders", subscription=b"billing", name=b"worker-1")
push = consumer.take()
consumer.settle(push.partition, (push.grant, ACK, push.runs))
consumer.answers()
"""

from __future__ import annotations

import os
import struct
import time
from itertools import accumulate
from typing import NamedTuple

from tests.clients.plain_client import PlainClient, field, fields, moment, packed, unpacked

ACK, NACK, REJECT, RELEASE = 1, 2, 3, 4

Runs = tuple[tuple[int, int], ...]
"""First offsets, and how many."""
Part = tuple[int, int, Runs]
"""A lease, an outcome, and runs of offsets; none for all that the lease still has, come or not."""


class Push(NamedTuple):
    """Messages of one lease."""

    partition: int
    grant: int
    until: int
    again: bool
    offsets: list[int]
    values: list[bytes | None]
    retry_counts: list[int]

    @property
    def runs(self) -> Runs:
        return tuple((offset, 1) for offset in self.offsets)


class PlainConsumer:
    """One consumer, used by one thread, over as many connections as it takes."""

    def __init__(self, host: str, port: int, *, topic: bytes, subscription: bytes, name: bytes, credit: int = 100, lease: int = 0) -> None:
        self._address = host, port
        self._names = field(1, topic) + field(2, subscription) + field(3, name) + field(4, os.urandom(16)) + field(5, lease)
        self._credit = field(1, credit) + field(2, 1 << 24)
        self._ids = field(9, b"")  # a missing subscription is made, with what is usual
        self._requests: dict[int, int] = {}
        """The last number of each partition."""
        self._numbers_from = 0
        self._bound = 0
        self._pushes: list[Push] = []
        self.held: dict[tuple[int, int], set[int]] = {}
        """Offsets by partition and lease, until their settlement is answered."""
        self._newest: tuple[int, int] | None = None
        """The lease of the last push: more of it may be to come."""
        self._unanswered: dict[tuple[int, int], tuple[bytes, tuple[Part, ...]]] = {}
        """Settlements by partition and request, in their order, as they travel and as they were meant."""
        self._written: dict[tuple[int, int], int] = {}
        """When they were written last."""
        self.refused: list[tuple[int, int, Runs, str, str]] = []
        """Partition, lease, runs, standing and holder of messages that were refused."""
        self.lost: list[tuple[int, int]] = []
        self.connect()

    def connect(self) -> None:
        """Opens a stream, says what is held, and sends again what has no answer."""
        self.client = PlainClient(*self._address)
        self.call = self.client.open("Consume")
        held: dict[int, list[int]] = {}
        for partition, grant in self.held.keys() - {self._newest}:
            held.setdefault(partition, []).append(grant)
        opening = self._names + self._ids + b"".join(field(10, field(1, at) + packed(2, grants)) for at, grants in held.items())
        self._opening = microseconds()
        self._written = dict.fromkeys(self._unanswered, self._opening)
        self.client.send(self.call, field(1, opening) + field(2, self._credit))
        for settlement, _ in self._unanswered.values():
            self.client.send(self.call, field(3, settlement))
        self.client.send(self.call, field(5, 1))
        while self._opening:
            self._read()

    def take(self) -> Push:
        """The next messages that are held for certain."""
        while True:
            while not self._pushes:
                self._read()
            push = self._pushes.pop(0)
            if push.until > microseconds() + self._bound and (push.partition, push.grant) in self.held:
                return push

    def settle(self, partition: int, *parts: Part) -> int:
        """Says what became of messages; gives the number of the request."""
        open_ones = [one for at, one in self._unanswered if at == partition]
        last = self._requests.get(partition, 0)
        request = self._requests[partition] = (last if open_ones else max(last, self._numbers_from)) + 1
        answered = min(open_ones, default=request) - 1
        settlement = field(1, partition) + field(2, request) + field(3, answered) + arrays(*parts)
        self._unanswered[partition, request], self._written[partition, request] = (settlement, parts), microseconds()
        try:
            self.client.send(self.call, field(3, settlement))
        except ConnectionError:
            self.client.close()
            self.connect()
        return request

    def answers(self) -> None:
        """Waits until every settlement has its answer."""
        while self._unanswered:
            self._read()

    def close(self) -> None:
        """Gives back what is not settled, as unseen, and ends."""
        self.client.send(self.call, field(2, b""))
        self.answers()
        while self.held:
            for partition, grant in list(self.held):
                self.settle(partition, (grant, RELEASE, ()))
            self.answers()
        self.client.end(self.call)
        while self.client.read(self.call) is not None:
            pass
        self.client.close()

    def _read(self) -> None:
        """Takes one answer of the broker; on a lost connection it makes another."""
        try:
            answer = self.client.read(self.call)
        except ConnectionError:
            self.client.close()
            return self.connect()
        assert answer is not None, "the broker has ended the stream"
        given: dict[int, list[bytes]] = {}
        for number, value in fields(answer):
            given.setdefault(number, []).append(value if isinstance(value, bytes) else value.to_bytes(8, "little"))
        now = moment(given[1][0])
        for opened in given.get(2, ()):
            told = dict(fields(opened))
            self._ids = field(7, told[1]) + field(8, told[2])
            self._numbers_from = int(told.get(8, 0))
            self._bound, self._opening = now - self._opening, 0
        for settled in given.get(5, ()):
            self._bound = now - self._settled(settled)
        for lost in given.get(7, ()):
            self._lost(lost)
        if 3 in given:
            self._pushed(given[3][0], given[4][0], given.get(15, [b""])[0])
        if 8 in given:
            self.client.send(self.call, field(6, int.from_bytes(given[8][0], "little")))
        return None

    def _pushed(self, page: bytes, lease: bytes, batch: bytes) -> None:
        head, holding = dict(fields(page)), dict(fields(lease))
        partition, grant = int(head.get(1, 0)), int(holding[1])
        offsets = offsets_in(page)
        counts = zip(unpacked(holding.get(4, b"")), unpacked(holding.get(5, b"")), strict=True)
        retries = [count for count, rows in counts for _ in range(rows)] or [0] * len(offsets)
        have = self.held.setdefault((partition, grant), set())
        new = [row for row, offset in enumerate(offsets) if offset not in have]
        have.update(offsets)
        self._newest = partition, grant
        if new:
            values = values_of(int(head[5]), len(offsets), batch)
            chosen = [[column[row] for row in new] for column in (offsets, values, retries)]
            self._pushes.append(Push(partition, grant, moment(holding[2]), 3 in holding, *chosen))

    def _settled(self, settled: bytes) -> int:
        answer = dict(fields(settled))
        partition, request = int(answer.get(1, 0)), int(answer[2])
        _, parts = self._unanswered.pop((partition, request))
        for grant, _, runs in parts:
            left = self.held.get((partition, grant), set())
            left -= {at for offset, rows in runs for at in range(offset, offset + rows)} if runs else set(left)
            if not left:
                self.held.pop((partition, grant), None)
        for number, refused in fields(settled):
            if number == 3:
                told = dict(fields(bytes(refused)))
                runs = tuple(zip(unpacked(told.get(2, b"")), unpacked(told.get(3, b"")), strict=True))
                standing, holder = bytes(told.get(4, b"")).decode(), bytes(told.get(5, b"")).decode()
                self.refused.append((partition, int(told[1]), runs, standing, holder))
        return self._written.pop((partition, request))

    def _lost(self, lost: bytes) -> None:
        named = dict(fields(lost))
        for key in [(int(named.get(1, 0)), grant) for grant in unpacked(named[2])]:
            self.lost += [key] if self.held.pop(key, None) else []  # else a repeated settlement has just settled it


def offsets_in(page: bytes) -> list[int]:
    """The offset of each message of a page: in runs, or in arrays where these are many."""
    runs = [dict(fields(bytes(run))) for number, run in fields(page) if number == 7]
    places = [(int(run[1]), int(run[2])) for run in runs]
    for scattered in (bytes(value) for number, value in fields(page) if number == 16):
        told = dict(fields(scattered))
        firsts = list(accumulate(unpacked(told[1])))
        places += zip(firsts, unpacked(told[2]) if 2 in told else [1] * len(firsts), strict=True)
    return [first + row for first, rows in places for row in range(rows)]


def microseconds() -> int:
    """By the monotonic clock."""
    return time.monotonic_ns() // 1000


def arrays(*parts: Part) -> bytes:
    """The parts of a settlement, packed."""
    runs = [run for _, _, found in parts for run in found]
    of_parts = packed(4, [grant for grant, _, _ in parts]) + packed(5, [outcome for _, outcome, _ in parts])
    of_runs = packed(7, [offset for offset, _ in runs]) + packed(8, [rows for _, rows in runs])
    return of_parts + packed(6, [len(found) for _, _, found in parts]) + of_runs


def values_of(columns: int, rows: int, batch: bytes) -> list[bytes | None]:
    """The column `value` of a batch that is not compressed."""
    if not columns & 2:
        return [None] * rows
    body, first = 8 + int.from_bytes(batch[4:8], "little"), 3 * (columns & 1)
    validity, offsets, data = (struct.unpack_from("<qq", batch, 88 + 16 * (first + buffer)) for buffer in range(3))
    ends = struct.unpack_from(f"<{rows + 1}i", batch, body + offsets[0])
    there = [not validity[1] or batch[body + validity[0] + row // 8] >> row % 8 & 1 for row in range(rows)]
    at = body + data[0]
    return [batch[at + ends[row] : at + ends[row + 1]] if there[row] else None for row in range(rows)]
