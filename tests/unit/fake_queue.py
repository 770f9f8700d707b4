"""Subscriptions of the fake broker: one record per message, and a Consume stream that pushes them.

It keeps the promises of the schema in the simplest way that can be read. Tests read what came in, and say what goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.messages import encoding
from bowstring.wire import codec
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.unit.fake_topic import FakePartition, FakeTopic

if TYPE_CHECKING:
    from tests.unit.fake_stream import FakeStream
    from tests.unit.fake_subscriptions import FakeSubscriptions

ACK, NACK, REJECT, RELEASE = 1, 2, 3, 4
LEASE = 30_000_000


@dataclass
class FakeLease:
    """A row that a consumer holds."""

    grant: int
    consumer: str
    until: int


@dataclass
class FakeLedger:
    """A subscription in one partition."""

    cursor: int = 1
    grants: int = 0
    leases: dict[int, FakeLease] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)
    counts: dict[int, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    refused: dict[tuple[str, int], list[pb.RefusedRows]] = field(default_factory=dict)

    def give_back(self, offset: int, *, counted: bool) -> None:
        del self.leases[offset]
        self.returned.add(offset)
        if counted:
            self.counts[offset] = self.counts.get(offset, 0) + 1

    def expire(self, now: int) -> None:
        for offset in [offset for offset, lease in self.leases.items() if lease.until <= now]:
            self.give_back(offset, counted=True)


@dataclass
class FakeQueue:
    """A subscription. `requests` are all settlements that came in."""

    topic: FakeTopic
    number: int
    ledgers: list[FakeLedger]
    requests: list[pb.SettleRows] = field(default_factory=list)
    extends: list[pb.ExtendRows] = field(default_factory=list)
    opens: list[pb.ConsumeOpen] = field(default_factory=list)
    credits: list[pb.ConsumeCredit] = field(default_factory=list)
    pongs: list[int] = field(default_factory=list)
    sessions: list[FakeSession] = field(default_factory=list)
    answering: Callable[[pb.SettleRows], str | None] = lambda request: None
    """What happens to a settlement: None as usual, "lose" carries it out and loses the answer with the stream, "ignore" carries it out and
    never answers, "drop" does neither, "cut" cuts the stream before."""
    grant_rows_max: int = 1 << 30
    page_rows_max: int = 1 << 30

    @property
    def acked(self) -> list[int]:
        return sorted(offset for ledger in self.ledgers for offset in ledger.acked)

    def held(self, consumer: str) -> int:
        return sum(lease.consumer == consumer for ledger in self.ledgers for lease in ledger.leases.values())

    def kick(self) -> None:
        for session in self.sessions:
            session.push()

    def release(self) -> None:
        """An operator takes everything away."""
        for session in self.sessions:
            lost: list[pb.HeldLeases] = []
            for number, ledger in enumerate(self.ledgers):
                mine = [offset for offset, lease in ledger.leases.items() if lease.consumer == session.name]
                if mine:
                    lost.append(pb.HeldLeases(partition=number, grants=sorted({ledger.leases[offset].grant for offset in mine})))
                for offset in mine:
                    ledger.give_back(offset, counted=False)
            session.answer(lost=lost)
        self.kick()


class FakeSession:
    """One Consume stream."""

    def __init__(self, broker: FakeSubscriptions, queue: FakeQueue, stream: FakeStream, opening: pb.ConsumeOpen) -> None:
        self._broker = broker
        self._queue = queue
        self._stream = stream
        self._opening = opening
        self.name = opening.consumer
        self._credit = 0
        self._ready = False

    def answer(self, **fields: Any) -> None:
        self._stream.answer(pb.ConsumeAnswer(now=self._broker.clock.now(), **fields).SerializeToString())

    def opened(self) -> None:
        lease = self._opening.lease or LEASE
        last = max(ledger.requests.get(self.name, 0) for ledger in self._queue.ledgers) // -1_000 * -1_000
        told = pb.ConsumeOpened(
            topic_id=self._queue.topic.id, subscription_id=self._queue.number, mode="shared", lease=lease, numbers_from=last
        )
        self.answer(opened=told)

    def take(self, request: pb.ConsumeRequest) -> None:
        queue = self._queue
        if request.HasField("credit"):
            queue.credits.append(request.credit)
            self._credit = request.credit.messages
        answers = [answer for settle in request.settle if (answer := self._settle(settle)) is not None]
        extended = [self._extend(extend) for extend in request.extend]
        if answers or extended:
            self.answer(settled=answers, extended=extended)
        if request.ready:
            self._resume()
        if request.pong:
            queue.pongs.append(request.pong)
        queue.kick()

    def _settle(self, settle: pb.SettleRows) -> pb.RowsSettled | None:
        self._queue.requests.append(settle)
        what = self._queue.answering(settle)
        if what == "cut":
            raise errors.Unavailable("cut")
        if what == "drop":
            return None
        ledger = self._queue.ledgers[settle.partition]
        ledger.expire(self._broker.clock.now())
        assert settle.answered < settle.request <= settle.answered + 1024
        if settle.request > ledger.requests.get(self.name, 0):
            ledger.requests[self.name] = settle.request
            ledger.refused[self.name, settle.request] = self._carry_out(ledger, settle)
        if what == "lose":
            raise errors.Unavailable("cut")
        if what == "ignore":
            return None
        return pb.RowsSettled(partition=settle.partition, request=settle.request, refused=ledger.refused[self.name, settle.request])

    def _carry_out(self, ledger: FakeLedger, settle: pb.SettleRows) -> list[pb.RefusedRows]:
        refused: list[pb.RefusedRows] = []
        for grant, outcome, offsets in _parts(settle, settle.outcomes):
            for offset in offsets:
                if not self._holds(ledger, grant, offset):
                    refused.append(self._refused(ledger, grant, offset))
                elif outcome == ACK:
                    del ledger.leases[offset]
                    ledger.acked.add(offset)
                else:
                    ledger.give_back(offset, counted=outcome != RELEASE)
        return refused

    def _holds(self, ledger: FakeLedger, grant: int, offset: int) -> bool:
        lease = ledger.leases.get(offset)
        return lease is not None and lease.grant == grant and lease.consumer == self.name

    def _refused(self, ledger: FakeLedger, grant: int, offset: int) -> pb.RefusedRows:
        told = pb.RefusedRows(grant=grant, offsets=[offset], rows=[1])
        lease = ledger.leases.get(offset)
        told.standing = "settled" if offset in ledger.acked else "waiting" if lease is None else "leased"
        if lease is not None:
            told.holder, told.until = lease.consumer, lease.until
        return told

    def _extend(self, extend: pb.ExtendRows) -> pb.RowsExtended:
        self._queue.extends.append(extend)
        now, ledger = self._broker.clock.now(), self._queue.ledgers[extend.partition]
        ledger.expire(now)
        until = now + (extend.lease or self._opening.lease or LEASE)
        answer = pb.RowsExtended(partition=extend.partition, number=extend.number, until=until)
        for grant, _, offsets in _parts(extend, extend.grants):
            mine = offsets or [offset for offset, lease in ledger.leases.items() if lease.grant == grant]
            if not mine:
                answer.refused.add(grant=grant)
            for offset in mine:
                if self._holds(ledger, grant, offset):
                    ledger.leases[offset].until = max(until, ledger.leases[offset].until)
                else:
                    answer.refused.append(self._refused(ledger, grant, offset))
        return answer

    def _resume(self) -> None:
        """Which of the held leases are lost, then those that are not named."""
        self._ready = True
        named = {(held.partition, grant) for held in self._opening.held for grant in held.grants}
        live: dict[tuple[int, int], list[int]] = {}
        for number, ledger in enumerate(self._queue.ledgers):
            ledger.expire(self._broker.clock.now())
            for offset, lease in ledger.leases.items():
                if lease.consumer == self.name:
                    live.setdefault((number, lease.grant), []).append(offset)
        lost = sorted(named - live.keys())
        if lost:
            self.answer(lost=[pb.HeldLeases(partition=number, grants=[grant]) for number, grant in lost])
        for (number, grant), offsets in sorted(live.items()):
            if (number, grant) not in named:
                self._send(number, grant, sorted(offsets), again=True)

    def push(self) -> None:
        """Leases what there is, up to the credit."""
        if not self._ready or self._stream.is_over:
            return
        for number, (ledger, partition) in enumerate(zip(self._queue.ledgers, self._queue.topic.partitions, strict=True)):
            ledger.expire(self._broker.clock.now())
            while (room := min(self._credit - self._queue.held(self.name), self._queue.grant_rows_max)) > 0:
                waiting = sorted(ledger.returned)[:room]
                fresh = list(range(ledger.cursor, min(ledger.cursor + room - len(waiting), len(partition.log) + 1)))
                if not waiting and not fresh:
                    break
                ledger.grants += 1
                ledger.returned -= set(waiting)
                ledger.cursor += len(fresh)
                until = self._broker.clock.now() + (self._opening.lease or LEASE)
                for offset in (*waiting, *fresh):
                    ledger.leases[offset] = FakeLease(ledger.grants, self.name, until)
                self._send(number, ledger.grants, [*waiting, *fresh])

    def _send(self, number: int, grant: int, offsets: list[int], *, again: bool = False) -> None:
        """Pushes rows of a grant, page by page."""
        ledger, partition = self._queue.ledgers[number], self._queue.topic.partitions[number]
        for first, header, data in partition.pages:
            mine = [offset for offset in offsets if first <= offset < header.next_offset]
            for start in range(0, len(mine), self._queue.page_rows_max):
                some = mine[start : start + self._queue.page_rows_max]
                page, batch = _taken(partition, first, header, data, some)
                lease = pb.Lease(grant=grant, until=ledger.leases[some[0]].until, again=again)
                if any(ledger.counts.get(offset) for offset in some):
                    lease.retry_counts.extend(ledger.counts.get(offset, 0) for offset in some)
                    lease.retry_rows.extend([1] * len(some))
                message = pb.ConsumeAnswer(now=self._broker.clock.now(), page=page, lease=lease)
                self._stream.answer(codec.join(message.SerializeToString(), batch))


def _parts(request: pb.SettleRows | pb.ExtendRows, codes: object) -> list[tuple[int, int, list[int]]]:
    found: list[tuple[int, int, list[int]]] = []
    at = 0
    for grant, code, runs in zip(request.grants, codes, request.runs, strict=True):  # pyright: ignore[reportArgumentType]
        offsets = [
            offset + row
            for offset, rows in zip(request.offsets[at : at + runs], request.rows[at : at + runs], strict=True)
            for row in range(rows)
        ]
        found.append((grant, code, offsets))
        at += runs
    assert at == len(request.offsets) == len(request.rows)
    return found


def _taken(partition: FakePartition, first: int, header: pb.FetchAnswer, data: bytes, offsets: list[int]) -> tuple[pb.FetchAnswer, bytes]:
    taken = encoding.take(encoding.decode(header.columns, data), [offset - first for offset in offsets])
    part = pb.FetchAnswer(partition=header.partition, arrived=header.arrived, schema=1, columns=taken.mask, rows=len(offsets))
    for offset in offsets:
        if part.runs and part.runs[-1].offset + part.runs[-1].rows == offset:
            part.runs[-1].rows += 1
        else:
            part.runs.add(offset=offset, rows=1)
        part.origins.add(
            rows=1,
            producer=header.origins[0].producer,
            number=header.origins[0].number,
            first_row=offset - first,
            group=header.origins[0].group,
        )
    part.next_offset, part.stored_bytes = offsets[-1] + 1, len(taken.data)
    del partition
    return part, bytes(taken.data)


async def consume(broker: FakeSubscriptions, stream: FakeStream) -> None:
    """Serves a stream to its end."""
    first = pb.ConsumeRequest.FromString(await stream.inbound())
    await asyncio.sleep(broker.delay)
    opening = first.open
    if opening.topic not in broker.topics:
        raise errors.TopicNotFound(f"there is no topic '{opening.topic}'.")
    queue = broker.queues.get((opening.topic, opening.subscription))
    if queue is None or opening.subscription_id not in (0, queue.number):
        if not opening.HasField("create") or opening.subscription_id:
            raise errors.SubscriptionNotFound(f"there is no subscription '{opening.subscription}'.")
        queue = broker.queue(opening.topic, opening.subscription)
    queue.opens.append(opening)
    session = FakeSession(broker, queue, stream, opening)
    queue.sessions = [other for other in queue.sessions if other.name != session.name] + [session]
    session.opened()
    session.take(first)
    try:
        while (request := await stream.inbound()) is not None:
            await asyncio.sleep(broker.delay)
            session.take(pb.ConsumeRequest.FromString(request))
    finally:
        if session in queue.sessions:
            queue.sessions.remove(session)
