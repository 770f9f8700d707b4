"""Writes down what happens to one consumer: below, what its kit and the broker send each other;
above, what its application is given and does.

The lower half is overheard at the kit's own end of the stream, from the bytes, whichever kit it is.
So it knows what a kit received, also if the kit never hands it out, and nothing of it comes from the
broker's own knowledge. No bytes of a row that was not granted may be in a frame: that is looked at
here, because the bytes are gone afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Channel, Dialer, Pieces, Stream, Take, joined
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.history.events import OK, UNKNOWN, Row
from tests.history.lease_events import (
    CLOSE,
    CONSUME,
    CREDIT,
    DECIDE,
    EXTEND,
    HANDED,
    LEAVE,
    LOST,
    OUTCOMES,
    PUSHED,
    READY,
    REVOKED,
    SETTLE,
    Consuming,
    Delivery,
)
from tests.history.violations import Violation
from tests.simulation.plain_reader import rows_in
from tests.simulation.watch import labels_in

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload


class ConsumerLog:
    """Of one consumer object of a kit, over all its streams."""

    def __init__(self, workload: Workload, life: Incarnation, session: str, topic: str) -> None:
        self._workload, self._history, self._world = workload, workload.history, workload.world
        self._client, self._session, self._topic = life.name, session, topic
        self._about = Consuming()
        self._calls: dict[tuple[str, int, int], int] = {}
        """The calls of settlements and extensions, by partition and number."""
        self.messages: dict[tuple[int, int], Row] = {}
        """What was pushed."""
        self.streams = 0
        self._ahead = 0
        """By how much the clock of leases was ahead when it was last told."""

    def dialer(self, dialer: Dialer) -> LoggedDialer:
        """One whose consume streams are overheard."""
        return LoggedDialer(dialer, self)

    # ---- the stream: what the kit writes ---------------------------------------------------------------------------

    def wrote(self, message: bytes) -> None:
        request = pb.ConsumeRequest.FromString(message)
        if request.HasField("open"):
            self.streams += 1
            self._about = Consuming(request.open.subscription, request.open.consumer, stream=self.streams)
        if request.HasField("credit"):
            self._note(CREDIT, credit=request.credit.messages)
        for settle in request.settle:
            self._ask(SETTLE, settle.partition, settle.request, _settled(settle))
        for extend in request.extend:
            self._ask(EXTEND, extend.partition, extend.number, _parts(extend, [""] * len(extend.grants)), span=extend.lease)
        if request.ready:
            self._note(READY)
        if request.leaving:
            self._note(LEAVE)
            self._world.sometimes("consumer said that it leaves")

    def _ask(self, operation: str, partition: int, number: int, rows: tuple[Delivery, ...], span: int = 0) -> None:
        about = self._about._replace(rows=rows, request=number, span=span)
        call = self._history.invoke(self._client, operation, self._topic, session=self._session, queue=about)
        self._calls[operation, partition, number] = call

    # ---- the stream: what the kit reads ----------------------------------------------------------------------------

    def read(self, message: Buffer) -> None:
        header, data = split(message)
        answer = pb.ConsumeAnswer.FromString(header)
        self._ahead = answer.now - round(self._world.loop.time() * 1e6)
        if answer.HasField("opened"):
            opened = answer.opened
            self._about = self._about._replace(identity=f"{opened.topic_id}.{opened.subscription_id}", mode=opened.mode)
            self._note(CONSUME, now=answer.now, span=opened.lease)
        for revoked in answer.revoked:
            offsets = _offsets(revoked.offsets, revoked.rows)
            self._note(REVOKED, rows=tuple(Delivery(revoked.partition, offset, revoked.grant) for offset in offsets), now=answer.now)
            self._world.sometimes("rows were revoked", len(offsets))
        if answer.HasField("page"):
            self._pushed(answer, message, data)
        for settled in answer.settled:
            self._answer(SETTLE, settled.partition, settled.request, settled.refused, answer.now)
        for extended in answer.extended:
            self._answer(EXTEND, extended.partition, extended.number, extended.refused, answer.now, extended.until)
        for lost in answer.lost:
            self._note(LOST, rows=tuple(Delivery(lost.partition, grant=grant) for grant in lost.grants), now=answer.now)

    def _pushed(self, answer: pb.ConsumeAnswer, message: Buffer, data: memoryview | None) -> None:
        lease, rows = answer.lease, rows_in(answer.page, data)
        home = lease.partition if lease.topic else -1
        self._world.sometimes("redriven letter was pushed", len(rows) * bool(lease.topic))
        self._world.sometimes("row was pushed because it was asked for", len(rows) * bool(lease.asked))
        counts = [count for count, times in zip(lease.retry_counts, lease.retry_rows, strict=True) for _ in range(times)]
        if len(counts) != len(rows):
            self._breaks("every_row_has_a_retry_count", f"{len(rows)} rows have {len(counts)} retry counts") if counts else None
            counts = [0] * len(rows)
        deliveries = [
            Delivery(row.partition, row.offset, lease.grant, lease.until, count, lease.again, home=home, asked=lease.asked > 0)
            for row, count in zip(rows, counts, strict=True)
        ]
        self.messages.update(((row.partition, row.offset), row) for row in rows)
        self._note(PUSHED, rows, rows=tuple(deliveries), now=answer.now)
        for label in sorted(labels_in(message) - {row.label for row in rows}):
            self._breaks("only_granted_bytes_travel", f"bytes of {label} were with grant {lease.grant}")
        self._world.sometimes("rows were pushed", len(rows))
        self._world.sometimes("rows were pushed again", lease.again)
        self._world.sometimes("row was pushed with a retry count", any(counts))
        self._world.sometimes("row was pushed with a retry count of 8 or more", any(count >= 8 for count in counts))

    def _answer(self, operation: str, partition: int, number: int, refused: Iterable[Any], now: int, until: int = 0) -> None:
        call = self._calls.get((operation, partition, number))
        if call is None:
            self._breaks("answers_are_to_requests", f"an answer to {operation} {number} of partition {partition} came")
            return
        rows = [
            Delivery(partition, offset, part.grant, part.until, error=part.standing or "unknown")
            for part in refused
            for offset in _offsets(part.offsets, part.rows) or [0]
        ]
        for part in refused:
            self._world.sometimes(f"{operation} of a row was refused: it is {part.standing or 'unknown'}")
        about = self._about._replace(rows=tuple(rows), request=number, now=now, span=until)
        self._history.ended(OK, self._client, call, operation, self._topic, queue=about)

    def failed(self, error: errors.Error) -> None:
        """The stream has ended with an error of the broker, or its connection has."""
        self._world.sometimes(f"consumer's stream ended with {error.kind}")
        self._note(CONSUME, error=error.kind)

    # ---- the application -------------------------------------------------------------------------------------------

    def left(self, row: Delivery) -> float:
        """For about how many seconds it is held."""
        return (row.until - self._ahead) / 1e6 - self._world.loop.time()

    def handed(self, rows: Sequence[Delivery]) -> None:
        """The application was given these."""
        self._note(HANDED, rows=tuple(rows))

    def decides(self, rows: Sequence[Delivery]) -> int:
        """The application settles or extends these."""
        about = self._about._replace(rows=tuple(rows))
        return self._history.invoke(self._client, DECIDE, self._topic, session=self._session, queue=about)

    def decided(self, call: int, kind: str, rows: Sequence[Delivery], error: str = "") -> None:
        """What it was told: row by row, or one error for all of them."""
        for row in rows:
            self._world.sometimes(f"{row.outcome} was told {row.error or 'done'}")
        about = self._about._replace(rows=tuple(rows))
        self._history.ended(kind, self._client, call, DECIDE, self._topic, error=error, queue=about)

    def asks(self, operation: str, rows: Iterable[Row], where: str = "") -> int:
        """The application looks at what would come next, or asks for messages by their ids."""
        about = self._about._replace(where=where)
        return self._history.invoke(self._client, operation, self._topic, rows, session=self._session, queue=about)

    def told(self, call: int, operation: str, rows: Sequence[Row], error: str = "") -> None:
        """What it was told of each."""
        for row in rows:
            self._world.sometimes(f"{operation} of a row was told {row.error or 'done'}")
        kind = UNKNOWN if error else OK
        self._history.ended(kind, self._client, call, operation, self._topic, rows, error=error, queue=self._about)

    def closed(self) -> None:
        """The application has closed its consumer."""
        self._note(CLOSE)

    def _note(self, operation: str, messages: Iterable[Row] = (), *, error: str = "", **facts: Any) -> None:
        about = self._about._replace(**facts)
        self._history.happened(self._client, operation, self._topic, about, messages, session=self._session, error=error)

    def _breaks(self, promise: str, case: str) -> None:
        where = f"{self._session} of {self._topic}, {self._world.loop.time():.3f} s"
        self._workload.violations.append(Violation(promise, f"{case} ({where})"))


def _parts(request: Any, outcomes: list[str]) -> tuple[Delivery, ...]:
    """The rows of a request, part by part."""
    runs = iter(zip(request.offsets, request.rows, strict=True))
    found: list[Delivery] = []
    for grant, outcome, count in zip(request.grants, outcomes, request.runs, strict=True):
        offsets = [offset + at for offset, rows in (next(runs) for _ in range(count)) for at in range(rows)]
        found += [Delivery(request.partition, offset, grant, outcome=outcome) for offset in (offsets if count else [0])]
    return tuple(found)


def _settled(request: pb.SettleRows) -> tuple[Delivery, ...]:
    """The rows of a settlement, with their outcomes and when they are to come again."""
    none = [0] * len(request.grants)
    times = [moment or -delay for moment, delay in zip(request.moments or none, request.delays or none, strict=True)]
    counts = [max(1, sum(run)) for run in _runs_of(request)]
    laters = [later for later, count in zip(times, counts, strict=True) for _ in range(count)]
    rows = _parts(request, [OUTCOMES.get(each, "?") for each in request.outcomes])
    return tuple(row._replace(later=later) for row, later in zip(rows, laters, strict=True))


def _runs_of(request: pb.SettleRows) -> list[list[int]]:
    """The lengths of the runs of each part."""
    rows = iter(request.rows)
    return [[next(rows) for _ in range(count)] for count in request.runs]


def _offsets(firsts: Iterable[int], counts: Iterable[int]) -> list[int]:
    return [first + at for first, rows in zip(firsts, counts, strict=True) for at in range(rows)]


class LoggedDialer:
    """`ports.transport.Dialer`."""

    def __init__(self, dialer: Dialer, log: ConsumerLog) -> None:
        self._dialer = dialer
        self._log = log

    def dial(self, address: str) -> LoggedChannel:
        return LoggedChannel(self._dialer.dial(address), self._log)


class LoggedChannel:
    """`ports.transport.Channel`."""

    def __init__(self, channel: Channel, log: ConsumerLog) -> None:
        self._channel = channel
        self._log = log
        self.call, self.close = channel.call, channel.close

    def stream(self, method: str) -> Stream:
        stream = self._channel.stream(method)
        return LoggedStream(stream, self._log) if method == "Consume" else stream


class LoggedStream(Stream):
    """`ports.transport.Stream` of a consumer."""

    def __init__(self, stream: Stream, log: ConsumerLog) -> None:
        self._stream = stream
        self._log = log
        self.end, self.cancel = stream.end, stream.cancel  # type: ignore[method-assign]

    async def read(self) -> Buffer | None:
        try:
            message = await self._stream.read()
        except errors.Error as error:
            self._log.failed(error)
            raise
        if message is not None:
            self._log.read(message)
        return message

    async def each(self, take: Take) -> None:
        def taken(message: Buffer) -> Any:
            self._log.read(message)
            return take(message)

        try:
            await self._stream.each(taken)
        except errors.Error as error:
            self._log.failed(error)
            raise

    async def write(self, message: Buffer | Pieces) -> None:
        self._log.wrote(joined(message))
        await self._stream.write(message)

    def try_write(self, message: Buffer | Pieces) -> bool:
        sent = self._stream.try_write(message)
        if sent:
            self._log.wrote(joined(message))
        return sent
