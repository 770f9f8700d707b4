"""Sends the events of a broker to the logger `bowstring.broker`.

A record has the event's words as its message; `record.event` is the event's name and
`record.fields` are its fields, for handlers that want more than a line. `repeats` decides which of
many equal events are logged.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from bowstring.logs.repeats import Repeats
from bowstring.ports.clock import Clock
from bowstring.ports.events import EVENTS, Kind

LOGGER = logging.getLogger("bowstring.broker")
_Key = tuple[str, tuple[object, ...]]


class EventLog:
    """An `Observer`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._repeats: Repeats[_Key] = Repeats()
        self._counting: asyncio.Task[None] | None = None

    def note(self, event: str, /, **fields: object) -> None:
        """See `Observer.note`."""
        kind = EVENTS[event]
        if not LOGGER.isEnabledFor(kind.level):
            return
        if kind.alike is None or self._is_first(event, kind, fields):
            _tell(event, kind, fields)

    def close(self) -> None:
        """Logs the counts that are not logged yet."""
        counting, self._counting = self._counting, None
        if counting is not None:
            counting.cancel()
        self._tell_counts(self._repeats.rest())

    def _is_first(self, event: str, kind: Kind, fields: dict[str, object]) -> bool:
        key = event, tuple(fields.get(name) for name in kind.alike or ())
        first = self._repeats.note(key, self._clock.monotonic())
        if self._counting is None:
            with suppress(RuntimeError):  # outside of a loop the number is logged at the end
                self._counting = asyncio.get_running_loop().create_task(self._count())
        return first

    async def _count(self) -> None:
        while (due := self._repeats.next_due) is not None:
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            self._tell_counts(self._repeats.due(self._clock.monotonic()))
        self._counting = None

    def _tell_counts(self, counts: list[tuple[_Key, int]]) -> None:
        for (event, values), count in counts:
            kind = EVENTS[event]
            _tell(event, kind, {**dict(zip(kind.alike or (), values, strict=True)), "again": count})


def _tell(event: str, kind: Kind, fields: dict[str, object]) -> None:
    LOGGER.log(kind.level, kind.message, extra={"event": event, "fields": {name: value for name, value in fields.items() if value != ""}})
