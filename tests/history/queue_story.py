"""A queue told by hand: a topic of four messages, a subscription, and consumers whose every step is
given. Leases last ten seconds, and the clock of leases is true time.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.history.events import ALTER, CREATE, ERASE, FINAL, OK, PUBLISH, History, Row, Settings, fingerprint, value_of
from tests.history.keeping import Clocks
from tests.history.lease_events import (
    ACK,
    BEGINNING,
    CLOSE,
    CONSUME,
    CREDIT,
    DECIDE,
    EXTEND,
    HANDED,
    KEY_SHARED,
    LEAVE,
    LOST,
    PUSHED,
    READY,
    SETTLE,
    SUBSCRIBE,
    TAKE_AWAY,
    UNSUBSCRIBE,
    Consuming,
    Delivery,
)
from tests.history.lease_time import EXACT, LeaseClocks
from tests.history.queue_checkers import check_queues

SECOND = 1_000_000
SPAN = 10


class QueueStory:
    """Steps are told in the order of time."""

    def __init__(self, start: str = BEGINNING, made: float = 0.0, key: str = "") -> None:
        """With a `key` all messages have it, and the subscription is key-shared."""
        self.time = 0.0
        self._key = key
        self.history = History(lambda: self.time)
        self._done(0, CREATE, settings=Settings())
        self.rows: dict[int, Row] = {}
        self._asks: dict[tuple[str, int], int] = {}
        self._streams: dict[str, int] = {}
        self._handed: dict[tuple[str, int], int] = {}
        if made == 0.0:
            self.subscribe(0, start)
        for offset in (1, 2, 3, 4):
            self.publish(1, offset)
        if made:
            self.subscribe(made, start)

    def _done(self, time: float, operation: str, rows: Iterable[Row] = (), answers: Iterable[Row] = (), **more: object) -> None:
        self.time = time
        call = self.history.invoke("admin", operation, "t", rows, **more)  # type: ignore[arg-type]
        self.history.ended(OK, "admin", call, operation, "t", answers, queue=more.get("queue", Consuming()))  # type: ignore[arg-type]

    def publish(self, time: float, offset: int, error: str = "") -> None:
        name = f"<m-{offset}>"
        row = Row(name, f"id-{offset}", self._key, value=fingerprint(value_of(name, 50)), natural=True, group="g")
        self.rows[offset] = row._replace(partition=0, offset=offset, arrived=SECOND, natural=False)
        self._done(time, PUBLISH, [row], [row._replace(error=error) if error else self.rows[offset]], producer="p", sequence=offset)

    def alter(self, time: float, retention: float) -> None:
        self._done(time, ALTER, settings=Settings(retention=retention))

    def subscribe(self, time: float, start: str) -> None:
        self._done(time, SUBSCRIBE, queue=Consuming("s", start=start))

    def unsubscribe(self, time: float, ended: float) -> None:
        self.time = time
        call = self.history.invoke("admin", UNSUBSCRIBE, "t", queue=Consuming("s"))
        self.history.events.append(self.history.events[-1]._replace(kind=OK, call=call, time=ended))

    def delete(self, time: float, offset: int, error: str = "") -> None:
        answer = Row("", f"id-{offset}", error=error) if error else Row("", f"id-{offset}", partition=0, offset=offset)
        self._done(time, ERASE, [Row("", f"id-{offset}", group="g")], [answer])

    def take_away(self, time: float, consumer: str = "") -> None:
        self._done(time, TAKE_AWAY, queue=Consuming("s", consumer))

    # ---- a consumer; its object has the consumer's name, unless it is given one

    def _note(
        self, time: float, name: str, operation: str, rows: Iterable[Delivery] = (), messages: Iterable[Row] = (), **facts: int
    ) -> None:
        self.time = time
        identity = name.split("/")[0], "1.1", tuple(rows)
        mode = KEY_SHARED if self._key else ""
        about = Consuming("s", *identity, stream=self._streams.get(name, 0), mode=mode, **facts)  # type: ignore[arg-type]
        self.history.happened(name, operation, "t", about, messages, session=name)

    def open(self, time: float, name: str = "ada", credit: int = 100) -> None:
        self._streams[name] = self._streams.get(name, 0) + 1
        self._note(time, name, CONSUME, now=round(time * SECOND), span=SPAN * SECOND)
        self.credit(time, credit, name)
        self._note(time, name, READY)

    def credit(self, time: float, credit: int, name: str = "ada") -> None:
        self._note(time, name, CREDIT, credit=credit)

    def push(
        self, time: float, grant: int, *offsets: int, name: str = "ada", until: float = 0, retries: int = 0, again: bool = False
    ) -> None:
        end = round((until or time + SPAN) * SECOND)
        rows = [Delivery(0, offset, grant, end, retries, again) for offset in offsets]
        self._note(time, name, PUSHED, rows, [self.rows[offset] for offset in offsets], now=round(time * SECOND))
        self._handed.update(((name, offset), grant) for offset in offsets)

    def hand(self, time: float, *offsets: int, name: str = "ada", retries: int = 0) -> None:
        self._note(time, name, HANDED, [Delivery(0, offset, self._handed[name, offset], retries=retries) for offset in offsets])

    def take(self, time: float, grant: int, *offsets: int, name: str = "ada", retries: int = 0) -> None:
        """Pushed, and handed out."""
        self.push(time, grant, *offsets, name=name, retries=retries)
        self.hand(time, *offsets, name=name, retries=retries)

    def ask(self, time: float, request: int, outcome: str, grant: int, *offsets: int, name: str = "ada") -> None:
        self.time = time
        rows = tuple(Delivery(0, offset, grant, outcome=outcome) for offset in offsets)
        about = Consuming("s", name, "1.1", rows, stream=self._streams[name], request=request)
        operation = SETTLE if outcome else EXTEND
        self._asks[name, request] = self.history.invoke(name, operation, "t", session=name, queue=about)

    def answer(self, time: float, request: int, *refused: tuple[int, int], name: str = "ada", until: float = 0) -> None:
        self.time = time
        rows = tuple(Delivery(0, offset, grant, error="waiting") for grant, offset in refused)
        about = Consuming("s", name, "1.1", rows, round(time * SECOND), round(until * SECOND), stream=self._streams[name], request=request)
        self.history.ended(OK, name, self._asks[name, request], EXTEND if until else SETTLE, "t", queue=about)

    def settle(self, time: float, request: int, outcome: str, grant: int, *offsets: int, name: str = "ada") -> None:
        """Asked, and answered at once: done."""
        self.ask(time, request, outcome, grant, *offsets, name=name)
        self.answer(time, request, name=name)

    def decide(self, time: float, outcome: str, grant: int, offset: int, told: str = "", name: str = "ada") -> None:
        self.time = time
        row = Delivery(0, offset, grant, outcome=outcome)
        call = self.history.invoke(name, DECIDE, "t", session=name, queue=Consuming("s", name, "1.1", (row,)))
        self.history.ended(OK, name, call, DECIDE, "t", queue=Consuming("s", name, "1.1", (row._replace(error=told),)))

    def lose(self, time: float, grant: int, name: str = "ada") -> None:
        self._note(time, name, LOST, [Delivery(0, grant=grant)])

    def leave(self, time: float, name: str = "ada") -> None:
        """It says that it has settled all that it had."""
        self._note(time, name, LEAVE)

    def close(self, time: float, name: str = "ada") -> None:
        self._note(time, name, CLOSE)

    def finish(self, time: float = 100, drained: Iterable[int] = (), retries: int = 0) -> None:
        """Fresh consumers take what is left, and a reader reads everything."""
        self.open(time, "drain")
        for at, offset in enumerate(drained):
            self.take(time, 1000 + at, offset, name="drain", retries=retries)
            self.settle(time, at + 1, ACK, 1000 + at, offset, name="drain")
        self.close(time, "drain")
        self.time = time + 1
        self.history.opened("f", FINAL, "t", {0: 0})
        self.history.read("f", FINAL, "t", list(self.rows.values()))

    def broken(self, clocks: Clocks | None = None, leases: LeaseClocks = EXACT) -> set[str]:
        return {violation.checker for violation in check_queues(self.history.events, leases, clocks)}

    def cases(self) -> list[str]:
        return [str(violation) for violation in check_queues(self.history.events, EXACT)]
