"""The schedules of a topic's partitions, made when they are needed."""

from __future__ import annotations

from collections.abc import Callable

from bowstring.broker.log.actor import PartitionActor
from bowstring.broker.log.alarm import Alarm
from bowstring.broker.queue.due_ahead import DueAhead
from bowstring.broker.queue.lease_clock import LeaseClock
from bowstring.broker.queue.schedule import Schedule
from bowstring.broker.reading.reading import Reading


class Schedules:
    """By partition."""

    def __init__(self, reading: Reading, clock: LeaseClock, alarm: Alarm, told: Callable[[PartitionActor], None]) -> None:
        """`told` is called when a partition may have rows to grant."""
        self._reading = reading
        self._clock = clock
        self._alarm = alarm
        self._told = told
        self._schedules: dict[PartitionActor, Schedule] = {}

    def __getitem__(self, actor: PartitionActor) -> Schedule:
        found = self._schedules.get(actor)
        if found is None:
            found = Schedule(actor, DueAhead(actor.partition, self._reading), self._clock, self._alarm, lambda: self._told(actor))
            self._schedules[actor] = found
        return found

    def stop(self) -> None:
        """No one needs them any more."""
        for schedule in self._schedules.values():
            schedule.stop()
