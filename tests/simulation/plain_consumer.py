"""The consumer of the plain kit, written from the schema and nothing else.

It keeps what was pushed until the application asks for it, numbers its requests, sends what was not
answered again after a break, and says `ready` then. It hands nothing out whose lease has ended by
the latest that it can be at the broker: an answer that tells the time `now` was written after the
request that it answers, so it is at most `now` and the time since that request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring import errors
from bowstring.ports.transport import Stream
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.lease_events import KEY_SHARED, NACK, OUTCOMES, RELEASE, Delivery
from tests.simulation.plain_order import PlainOrder
from tests.simulation.plain_reader import rows_in
from tests.simulation.plain_stream import messages, write

if TYPE_CHECKING:
    from tests.simulation.plain_kit import PlainKit

PAUSE_SECONDS = 0.1
CREDIT_BYTES = 1 << 20
CLOSING_SECONDS = 10.0
UNANSWERED_MAX = 500
NUMBERS = {name: number for number, name in OUTCOMES.items()}
ENDS = (errors.NotFound, errors.Conflict, errors.InvalidArgument, errors.OutOfRange)
"""Errors after which it makes no sense to open the stream again."""


class Settling:
    """A request and those who wait for its answer."""

    def __init__(self, message: pb.SettleRows | pb.ExtendRows, rows: Sequence[Delivery]) -> None:
        self.message = message
        self.rows = list(rows)
        self.answer: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
        self.written = 0
        """When it was last written, by this clock."""
        self.stream: Stream | None = None
        """Where to."""


class PlainConsumerSettings(NamedTuple):
    """How it consumes."""

    topic: str
    subscription: str
    name: str
    credit: int
    lease: int = 0
    create: bool = False


class PlainConsumer:
    """One consumer: a stream at a time, and what it holds."""

    def __init__(self, kit: PlainKit, settings: PlainConsumerSettings) -> None:
        self._kit = kit
        self._settings = settings
        self._instance = kit.life.randomness.unique()
        self._credit = settings.credit
        self._opened: pb.ConsumeOpened | None = None
        self._waiting: dict[tuple[int, int], Delivery] = {}
        """Rows that have come, in order, and were not handed out."""
        self._seen: dict[tuple[int, int], Delivery] = {}
        """Rows that were handed out, and not settled."""
        self._last: dict[int, int] = {}
        """The number of the last request of a partition."""
        self._requests: dict[tuple[int, int], Settling] = {}
        """Settlements without an answer, by partition and number."""
        self._extends: dict[int, Settling] = {}
        self._extend_number = 0
        self._ahead: int | None = None
        """The time of leases less this clock, at most."""
        self._came = asyncio.Event()
        self._stream: Stream | None = None
        self._unwritten: list[pb.ConsumeRequest] = []
        self._wake = asyncio.Event()
        self._order = PlainOrder()
        self._given_back: set[tuple[int, int, int]] = set()
        """Rows by partition, offset and grant that `close` has given back."""
        self.failure: errors.Error | None = None
        self._is_over = False
        """There will be no stream any more, and no answers."""
        self._task = asyncio.create_task(self._run())

    # ---- the application's side ------------------------------------------------------------------------------------

    async def take(self, most: int, seconds: float) -> list[Delivery]:
        """Rows whose lease is valid, at most so many; none if none come in time. Raises what has
        ended the consumer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._waiting and self.failure is None:
                    self._came.clear()
                    await self._came.wait()
        taken: list[Delivery] = []
        while self._waiting and len(taken) < most:
            place = next(iter(self._waiting))
            row = self._waiting.pop(place)
            if row.until > self._latest():
                taken.append(row)
                self._seen[place] = row
        if not taken and self.failure is not None:
            raise self.failure
        return taken

    def _latest(self) -> float:
        """The latest that it can be by the clock of leases."""
        return self._now() + (self._ahead if self._ahead is not None else 1 << 62)

    def _now(self) -> int:
        return round(self._kit.life.clock.monotonic() * 1e6)

    def settle(self, rows: Sequence[Delivery]) -> list[Settling]:
        """A request for each partition; each row has its outcome. Rows that `close` has given back are
        refused here: the consumer does not have them any more.
        """
        again = [row for row in rows if (*row.place, row.grant) in self._given_back]
        made = self._ask([row for row in rows if row not in again])
        if again:
            made.append(Settling(pb.SettleRows(), again))
            made[-1].answer.set_result([row._replace(error="lease-lost") for row in again])
        return made

    def _ask(self, rows: Sequence[Delivery]) -> list[Settling]:
        made: list[Settling] = []
        for partition in dict.fromkeys(row.partition for row in rows):
            mine = [row for row in rows if row.partition == partition]
            self._drop(self._order.given_back(mine, self._waiting.values()))
            for row in mine:
                if row.place in self._seen and self._seen[row.place].grant == row.grant:
                    del self._seen[row.place]
            number = self._last[partition] = self._last_number(partition) + 1
            message = pb.SettleRows(partition=partition, request=number)
            _fill(message, mine)
            made.append(Settling(message, mine))
            self._requests[partition, number] = made[-1]
            self._write_soon(pb.ConsumeRequest(settle=[self._numbered(message)]), made[-1])
        return made

    def _last_number(self, partition: int) -> int:
        """The last request of a partition, or where the broker says that numbers go on, once nothing is unanswered."""
        last, start = self._last.get(partition, 0), 0 if self._opened is None else self._opened.numbers_from
        return last if any(asked == partition for asked, _ in self._requests) else max(last, start)

    def _numbered(self, message: pb.SettleRows) -> pb.SettleRows:
        """With the last number up to which all answers have come."""
        open_ones = [number for partition, number in self._requests if partition == message.partition]
        message.answered = min(open_ones, default=message.request) - 1
        return message

    def extend(self, rows: Sequence[Delivery], lease: int) -> list[Settling]:
        """Requests for the rows of one partition each."""
        made: list[Settling] = []
        for partition in dict.fromkeys(row.partition for row in rows):
            mine = [row for row in rows if row.partition == partition]
            self._extend_number += 1
            message = pb.ExtendRows(partition=partition, number=self._extend_number, lease=lease)
            _fill(message, mine)
            made.append(Settling(message, mine))
            self._extends[self._extend_number] = made[-1]
            self._write_soon(pb.ConsumeRequest(extend=[message]))
        return made

    def ask_for(self, credit: int) -> None:
        """Another credit; 0 pauses."""
        self._credit = credit
        self._write_soon(pb.ConsumeRequest(credit=self._limits()))

    async def close(self) -> None:
        """Gives back what it holds, as far as the broker can be reached: unseen rows uncounted."""
        self.ask_for(0)
        with suppress(TimeoutError, errors.Unavailable):
            async with asyncio.timeout(CLOSING_SECONDS):
                while self._waiting or self._seen:
                    back = [row._replace(outcome=RELEASE) for row in self._waiting.values()]
                    self._waiting = {}
                    back += [row._replace(outcome=NACK) for row in self._seen.values()]
                    self._given_back.update((*row.place, row.grant) for row in back)
                    last = self._ask(back)
                    if self.failure is None:
                        await asyncio.wait([each.answer for each in last])
                if self._stream is not None:
                    await self._stream.end()
        self._task.cancel()
        await asyncio.wait([self._task])
        self._give_up("outcome-unknown")

    def abandon(self) -> None:
        """Ends without a word."""
        self._task.cancel()
        self._give_up("outcome-unknown")

    def _give_up(self, error: str) -> None:
        """What has no answer gets none."""
        self._is_over = True
        for each in (*self._requests.values(), *self._extends.values()):
            if not each.answer.done():
                each.answer.set_result([row._replace(error=error) for row in each.rows])

    # ---- the stream ------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self.failure is None:
            try:
                await self._serve()
            except errors.Unavailable:
                pass
            except ENDS as error:
                self.failure = error
                self._give_up("outcome-unknown")
                self._came.set()
            await asyncio.sleep(PAUSE_SECONDS * self._kit.life.randomness.unit())

    async def _serve(self) -> None:
        """One stream, from its opening to its end."""
        stream = self._kit.channel.stream("Consume")
        opened = self._now()
        writing = asyncio.create_task(self._write(stream))
        self._ahead = None
        try:
            await write(stream, pb.ConsumeRequest(open=self._open(), credit=self._limits()).SerializeToString())
            if self._opened is not None:
                await self._send_again(stream)
            async for message in messages(stream, self._kit.life):
                header, data = split(message)
                answer = pb.ConsumeAnswer.FromString(header)
                self._learn(answer.now, opened)
                if answer.HasField("opened"):
                    is_first = self._opened is None
                    self._opened, self._order.is_keyed = answer.opened, answer.opened.mode == KEY_SHARED
                    if is_first:
                        await self._send_again(stream)
                self._heard(answer, data)
            raise errors.Unavailable("the stream has ended.")
        finally:
            self._stream = None
            writing.cancel()
            await asyncio.wait([writing])
            if not writing.cancelled():
                writing.exception()
            stream.cancel()

    def _open(self) -> pb.ConsumeOpen:
        settings, known = self._settings, self._opened
        request = pb.ConsumeOpen(topic=settings.topic, subscription=settings.subscription, consumer=settings.name)
        request.instance, request.lease = self._instance, settings.lease
        if settings.create:
            request.create.SetInParent()
        if known is not None:
            request.topic_id, request.subscription_id = known.topic_id, known.subscription_id
        grants: dict[int, set[int]] = {}
        for row in (*self._waiting.values(), *self._seen.values(), *(row for each in self._requests.values() for row in each.rows)):
            grants.setdefault(row.partition, set()).add(row.grant)
        request.held.extend(pb.HeldLeases(partition=partition, grants=sorted(held)) for partition, held in sorted(grants.items()))
        return request

    def _limits(self) -> pb.ConsumeCredit:
        return pb.ConsumeCredit(messages=self._credit, bytes=CREDIT_BYTES)

    async def _send_again(self, stream: Stream) -> None:
        """Settlements that were not answered, in order; then new rows may come."""
        self._unwritten = []
        while again := [each for _, each in sorted(self._requests.items()) if each.stream is not stream]:
            assert isinstance(again[0].message, pb.SettleRows)
            again[0].written, again[0].stream = self._now(), stream
            await write(stream, pb.ConsumeRequest(settle=[self._numbered(again[0].message)]).SerializeToString())
        request = pb.ConsumeRequest(ready=True, credit=self._limits())
        request.extend.extend(each.message for _, each in sorted(self._extends.items()) if isinstance(each.message, pb.ExtendRows))
        self._stream = stream
        self._write_soon(request)

    def _write_soon(self, request: pb.ConsumeRequest, settling: Settling | None = None) -> None:
        """Requests keep their order. Without a stream they go with the next one."""
        if self._is_over:
            self._give_up("outcome-unknown")
        if self._stream is None:
            return
        if settling is not None:
            settling.written, settling.stream = self._now(), self._stream
        if self._unwritten or not self._stream.try_write(request.SerializeToString()):
            self._unwritten.append(request)
            self._wake.set()

    async def _write(self, stream: Stream) -> None:
        while True:
            self._wake.clear()
            while self._stream is stream and self._unwritten:
                await write(stream, self._unwritten[0].SerializeToString())
                self._unwritten.pop(0)
            await self._wake.wait()

    def _learn(self, now: int, written: int) -> None:
        """The broker told the time in an answer to something that was written at that moment."""
        ahead = now - written
        self._ahead = ahead if self._ahead is None else min(self._ahead, ahead)

    def _heard(self, answer: pb.ConsumeAnswer, data: memoryview | None) -> None:
        for revoked in answer.revoked:
            self._drop(self._order.told(revoked))
        if answer.HasField("page"):
            self._pushed(answer, data)
        for settled in answer.settled:
            if (each := self._requests.pop((settled.partition, settled.request), None)) is not None:
                self._learn(answer.now, each.written)
                _answer(each, settled.refused)
        for extended in answer.extended:
            if (each := self._extends.pop(extended.number, None)) is not None:
                for row in _answer(each, extended.refused):
                    self._extended(row, extended.until)
        for lost in answer.lost:
            self._lose(lost.partition, set(lost.grants))
        if answer.ping:
            self._write_soon(pb.ConsumeRequest(pong=answer.ping))

    def _pushed(self, answer: pb.ConsumeAnswer, data: memoryview | None) -> None:
        lease, rows = answer.lease, rows_in(answer.page, data)
        counts = [count for count, times in zip(lease.retry_counts, lease.retry_rows, strict=True) for _ in range(times)] or [0] * len(rows)
        for row, count in zip(rows, counts, strict=True):
            delivery = Delivery(row.partition, row.offset, lease.grant, lease.until, count, lease.again)
            known = self._seen.get(delivery.place)
            if (known is None or known.grant != lease.grant) and not self._order.is_revoked(delivery, row.key):
                self._waiting[delivery.place] = delivery
        self._came.set()

    def _extended(self, row: Delivery, until: int) -> None:
        """It is held until then at least, if it was not refused."""
        for rows in (self._waiting, self._seen):
            known = rows.get(row.place)
            if known is not None and known.grant == row.grant and not row.error:
                rows[row.place] = known._replace(until=max(until, known.until))

    def _drop(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Rows that wait and are revoked, by partition, offset and grant."""
        for partition, offset, grant in rows:
            known = self._waiting.get((partition, offset))
            if known is not None and known.grant == grant:
                del self._waiting[partition, offset]

    def _lose(self, partition: int, grants: set[int]) -> None:
        for rows in (self._waiting, self._seen):
            for place in [place for place, row in rows.items() if place[0] == partition and row.grant in grants]:
                del rows[place]


def _fill(message: Any, rows: Sequence[Delivery]) -> None:
    """Parts by grant and outcome, each with its runs of offsets."""
    for grant, outcome, later in dict.fromkeys((row.grant, row.outcome, row.later) for row in rows):
        runs = _runs(row.offset for row in rows if (row.grant, row.outcome, row.later) == (grant, outcome, later))
        message.grants.append(grant)
        message.runs.append(len(runs))
        message.offsets.extend(first for first, _ in runs)
        message.rows.extend(count for _, count in runs)
        if isinstance(message, pb.SettleRows):
            message.outcomes.append(NUMBERS[outcome])
            message.moments.append(max(later, 0))
            message.delays.append(max(-later, 0))


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and sum(runs[-1]) == offset:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((offset, 1))
    return runs


def _answer(each: Settling, refused: Iterable[Any]) -> list[Delivery]:
    """What became of each row."""
    parts = list(refused)
    runs = [(part.grant, run) for part in parts for run in zip(part.offsets, part.rows, strict=True)]
    lost = {(grant, offset + at) for grant, (offset, rows) in runs for at in range(rows)}
    lost |= {(row.grant, row.offset) for row in each.rows for part in parts if part.grant == row.grant and not part.offsets}
    told = [row._replace(error="lease-lost" if (row.grant, row.offset) in lost else "") for row in each.rows]
    if not each.answer.done():
        each.answer.set_result(told)
    return told
