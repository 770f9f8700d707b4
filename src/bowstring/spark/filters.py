"""Turns filters that Spark pushes down into bounds of the read.

A filter on topic, partition, offset or timestamp says which ranges of offsets can hold rows that
pass. It only narrows: Spark applies every filter again, so a bound may be wider than its filter,
and an unsupported filter costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from bowstring.spark.tasks import Task

if TYPE_CHECKING:
    from bowstring.client.sync import Client

_MICROSECOND: Final = timedelta(microseconds=1)
_STEPS: Final[dict[str, Any]] = {"offset": 1, "timestamp": _MICROSECOND}


@dataclass
class Bounds:
    """The rows that can pass all filters so far."""

    prefix: str = ""
    """The prefix of the message's own columns."""
    names: dict[str, set[Any]] = field(default_factory=dict[str, set[Any]])
    """The topics and the partitions, where they are limited."""
    lows: dict[str, Any] = field(default_factory=dict[str, Any])
    """The lowest offset and timestamp."""
    highs: dict[str, Any] = field(default_factory=dict[str, Any])
    """The first offset and timestamp above."""

    def add(self, given: Filter) -> None:
        """Narrows by one more filter, if it is of a supported kind."""
        name, value = self._named(given), getattr(given, "value", ())
        if name in ("topic", "partition") and isinstance(given, EqualTo | In):
            values = set(value) if isinstance(given, In) else {value}
            self.names[name] = self.names.get(name, values) & values
        elif name in _STEPS and (name == "offset" or (isinstance(value, datetime) and value.tzinfo is not None)):
            step = _STEPS[name]
            if isinstance(given, EqualTo | GreaterThanOrEqual | GreaterThan):
                low = value + step if isinstance(given, GreaterThan) else value
                self.lows[name] = max(low, self.lows.get(name, low))
            if isinstance(given, EqualTo | LessThanOrEqual | LessThan):
                high = value if isinstance(given, LessThan) else value + step
                self.highs[name] = min(high, self.highs.get(name, high))

    def _named(self, given: Filter) -> str:
        path = getattr(given, "attribute", ())
        return path[0].removeprefix(self.prefix) if len(path) == 1 and path[0].startswith(self.prefix) else ""

    def narrow(self, tasks: list[Task], client: Client) -> list[Task]:
        """The tasks cut to the bounds, without the empty ones."""
        topics, partitions = self.names.get("topic"), self.names.get("partition")
        kept = [
            self._within(task, client)
            for task in tasks
            if (topics is None or task.topic in topics) and (partitions is None or task.partition in partitions)
        ]
        return [task for task in kept if task.rows > 0]

    def _within(self, task: Task, client: Client) -> Task:
        start = max(task.start, self.lows.get("offset", task.start))
        end = min(task.end, self.highs.get("offset", task.end))
        if "timestamp" in self.lows:
            start = max(start, _since(client, task, self.lows["timestamp"], start))
        if "timestamp" in self.highs:
            end = min(end, _since(client, task, self.highs["timestamp"], end))
        return replace(task, start=start, end=end)


def _since(client: Client, task: Task, moment: datetime, unknown: int) -> int:
    """The first offset that arrived at the moment or later. Never asks about the future, because
    the clocks may differ.
    """
    if moment >= datetime.now(UTC) - timedelta(minutes=1):
        return unknown
    return client.offsets(task.topic, moment, partitions=[task.partition])[task.partition]
