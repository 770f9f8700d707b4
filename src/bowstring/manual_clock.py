"""`broker.clock`, of a broker that was made with `clock="manual"`: the two faces of `host.manual_time`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bowstring import errors, times
from bowstring.host.clock import SystemClock
from bowstring.host.manual_time import ManualTime

if TYPE_CHECKING:
    from bowstring.embedded import AsyncBroker, Broker


class ManualClock:
    """The clock of a broker with `clock="manual"`: `broker.clock.advance(31)`. It stands still in between."""

    def __init__(self, broker: Broker, time: ManualTime) -> None:
        self.broker = broker
        """The broker that goes by it."""
        self._time = time

    def now(self) -> datetime:
        """What it shows, in UTC."""
        return times.to_datetime(self._time.now())

    def advance(self, span: timedelta | float) -> None:
        """Lets so much time pass, a timedelta or seconds, and returns when the broker has done what became due."""
        self.broker.let_pass(times.span(span, "span"))

    def __repr__(self) -> str:
        return f"<ManualClock at {times.to_text(self._time.now())}>"


class AsyncManualClock:
    """The clock of a `bowstring.aio.Broker` with `clock="manual"`: `await broker.clock.advance(31)`. It stands still in between."""

    def __init__(self, broker: AsyncBroker, time: ManualTime) -> None:
        self.broker = broker
        """The broker that goes by it."""
        self._time = time

    def now(self) -> datetime:
        """What it shows, in UTC."""
        return times.to_datetime(self._time.now())

    async def advance(self, span: timedelta | float) -> None:
        """Lets so much time pass, a timedelta or seconds, and returns when the broker has done what became due."""
        await self.broker.let_pass(times.span(span, "span"))

    def __repr__(self) -> str:
        return f"<AsyncManualClock at {times.to_text(self._time.now())}>"


def started_now(kind: str) -> ManualTime:
    """The time of a broker that is made with clock="manual", from this moment on."""
    if kind != "manual":
        raise errors.InvalidArgument(f"clock={kind!r} is not known.", hint='Use clock="system" or clock="manual".')
    return ManualTime(SystemClock().now())
