"""Streaming reads: where a micro-batch begins and ends.

Spark's log of offsets is the truth, and a restarted stream continues from there. The log holds only
the ends of micro-batches. Spark asks for the start of the first one again whenever it plans it, so
`initialOffset` is a mark that never changes and needs no broker; `latestOffset` decides what the
mark means and writes that start into the first end. Spark calls `latestOffset(start)` at every
trigger: its `start` is in the commit log, so everything before it is in the sink, and the stream
reports its progress then. When Spark repeats a micro-batch it calls `partitions` with logged
offsets, which gives the same rows again. Nothing here changes anything at the broker, apart from
the named position.

Limits come from the options. The limit that Spark passes says whether they apply: with
`ReadAllAvailable` they do not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from bowstring.errors import Conflict, TopicNotFound
from bowstring.spark import clients, limits, places, reading, tasks
from bowstring.spark.options import Options, Place
from bowstring.spark.places import LOST, Offsets, Standings

if TYPE_CHECKING:
    from bowstring.client.topic_watch import TopicWatch

IDLE_SECONDS: Final = 0.25
"""How long an idle stream waits for news at the broker. Without it Spark asks every 10 ms. The
other sources of a query, and a call that stops it, wait as long.
"""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Continues where the last micro-batch ended."""

    def __init__(self, asked: Options, schema: pa.Schema) -> None:
        self._options = asked
        self._schema = schema
        self._target: Standings | None = None
        """The ends of the topics when a query with Trigger.AvailableNow began."""
        self._latest: dict[str, Any] | None = None
        self._last_trigger = float("-inf")
        self._told: dict[str, Any] | None = None
        """The progress that was reported last."""
        self._watch: TopicWatch | None = None
        self._waiting: dict[str, Any] | None = None
        """The offsets at which there was nothing to read when Spark asked last."""

    # ---- offsets

    def initialOffset(self) -> dict[str, Any]:
        """The mark of a new query. The first `latestOffset` decides where it begins, once and for
        all.
        """
        return {places.INITIAL: True}

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the ends of a query with Trigger.AvailableNow: what is there now."""
        self._target = self._look(0.0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Tells Spark that there are limits. The options hold them; Spark's single limit could not
        express them all.
        """
        asked = self._options
        if asked.offsets_max is not None:
            return ReadMaxRows(asked.offsets_max)
        if asked.bytes_max is not None:
            return ReadMaxBytes(asked.bytes_max)
        return ReadAllAvailable() if asked.offsets_min is None else ReadMinRows(asked.offsets_min)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes; `start` itself if there is none."""
        standings = self._look(IDLE_SECONDS if start == self._waiting else 0.0) if self._target is None else self._target
        if places.INITIAL in start:
            return self._first(standings, limit)
        self._tell(start)
        starts = self._starts(start, standings)
        ends = _ends(starts, standings)
        waiting = limits.rows(starts, ends)
        if not waiting or (not isinstance(limit, ReadAllAvailable) and self._waits_for_more(waiting)):
            self._waiting = start
            self._latest = self._progress(starts, starts, standings)
            return start
        ends = self._within(limit, starts, ends, standings)
        self._latest = self._progress(starts, ends, standings)
        return places.to_json(ends, _ids(standings))

    def _first(self, standings: Standings, limit: ReadLimit) -> dict[str, Any]:
        """The end of the first micro-batch, with its start. It may be empty: from then on the start
        is in Spark's log.
        """
        asked, connected = self._options, clients.client(self._options)
        places.check_named(connected, asked, standings)
        starts = places.resolve(connected, asked.start or Place("latest", "startingOffsets"), standings, asked.strategy)
        if asked.fail_on_data_loss:
            places.check_start(starts, standings)
        starts = places.clamp(starts, standings)
        begin = places.to_json(starts, _ids(standings))
        self._tell(begin)
        ends = self._within(limit, starts, _ends(starts, standings), standings)
        self._latest = self._progress(starts, ends, standings)
        return {**places.to_json(ends, _ids(standings)), places.START: begin}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The latest offsets and the figures of this micro-batch, for the progress of the query:
        Spark takes no other figures from Python.
        """
        return self._latest

    def _progress(self, starts: Offsets, ends: Offsets, standings: Standings) -> dict[str, Any]:
        latest = {name: standing.ends for name, standing in standings.items()}
        return {
            **places.to_json(latest, _ids(standings)),
            places.METRICS: {
                "description": self._options.description,
                "rows": limits.rows(starts, ends),
                "bytes": round(limits.size(starts, ends, standings)),
                "lag": {name: limits.rows({name: ends[name]}, {name: latest[name]}) for name in sorted(latest)},
            },
        }

    def _tell(self, start: dict[str, Any]) -> None:
        """Commits the progress under the stream's name. Everything before `start` is in the sink. A
        checkpoint that was set back sets the position back, because Spark's log is the truth.
        """
        if self._options.name is None or start == self._told:
            return
        connected = clients.client(self._options)
        for topic, offsets in places.from_json(start)[0].items():
            with suppress(TopicNotFound):  # `_check_topics` decides whether that is allowed
                connected.set_position(self._options.name, topic, offsets)
        self._told = start

    def _look(self, seconds: float) -> Standings:
        """The topics as they are now. A stream with nothing to read waits for news at the broker,
        because Spark asks again at once.
        """
        if self._watch is None:
            from bowstring.client.topic_watch import TopicWatch

            connected = clients.client(self._options)
            self._watch = TopicWatch(connected, lambda: places.listed(connected, self._options, missing_ok=True))
        return places.standings_of(self._watch.look(seconds).values(), self._options)

    def _waits_for_more(self, waiting: int) -> bool:
        """Whether a micro-batch would be too small, and is not overdue. Trigger.AvailableNow never
        waits.
        """
        least = self._options.offsets_min
        if least is None or waiting >= least or self._target is not None:
            return False
        return time.monotonic() - self._last_trigger < self._options.delay_seconds_max

    def _within(self, limit: ReadLimit, starts: Offsets, ends: Offsets, standings: Standings) -> Offsets:
        """The ends of the next micro-batch: no further than the options allow, if Spark applies
        limits.
        """
        self._last_trigger = time.monotonic()
        asked = self._options
        if isinstance(limit, ReadAllAvailable):
            return ends
        if asked.bytes_max is not None:
            ends = limits.advance(starts, ends, limits.rows_of_bytes(starts, ends, standings, asked.bytes_max))
        return ends if asked.offsets_max is None else limits.advance(starts, ends, asked.offsets_max)

    def _starts(self, start: dict[str, Any], standings: Standings) -> Offsets:
        """Where each partition continues. A partition that is new to the stream begins at its
        beginning.
        """
        told, ids = places.from_json(start)
        known = {
            name: {number: offset for number, offset in told[name].items() if number in standing.ranges}
            for name, standing in standings.items()
            if name in told
        }
        if self._options.fail_on_data_loss:
            self._check_topics(ids, standings)
            places.check_start(known, standings)
        same = {name: offsets for name, offsets in known.items() if ids.get(name) == standings[name].id}
        starts = {name: {**standing.firsts, **same.get(name, {})} for name, standing in standings.items()}
        return places.clamp(starts, standings)

    def _check_topics(self, ids: dict[str, int], standings: Standings) -> None:
        """Refuses a topic that was deleted, or created again: its messages are gone. A topic that
        the options no longer name is fine.
        """
        for name, number in ids.items():
            if name not in standings and (self._options.pattern is not None or name in self._options.topics):
                raise TopicNotFound(f"the topic '{name}' is gone, with messages that this stream has not read.", hint=LOST)
            if name in standings and standings[name].id != number:
                raise Conflict(f"the topic '{name}' was deleted and made again since this stream has read it.", hint=LOST)

    # ---- rows

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What each task of a micro-batch reads: the same for the same offsets."""
        known, ids = places.from_json(places.start_of(start, end))
        ends, end_ids = places.from_json(end)
        lenient = not self._options.fail_on_data_loss
        ranges: list[tasks.Task] = []
        for name, offsets in ends.items():
            seen = known.get(name, {}) if ids.get(name) == end_ids[name] else {}
            for number, stop in offsets.items():
                # A partition that is new to the stream is read from its first remaining message.
                ranges.append(tasks.Task(name, end_ids[name], number, seen.get(number, 1), stop, lenient or number not in seen))
        return tasks.split(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, tasks.Task)
        return reading.read(partition, self._options, self._schema)

    def stop(self) -> None:
        """Closes the driver's connection."""
        clients.close()


def _ends(starts: Offsets, standings: Standings) -> Offsets:
    return {name: {number: max(end, starts[name][number]) for number, end in standings[name].ends.items()} for name in standings}


def _ids(standings: Standings) -> dict[str, int]:
    return {name: standing.id for name, standing in standings.items()}
