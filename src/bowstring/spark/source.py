"""The format `bowstring` as Spark sees it, and its batch reads.

Spark makes these objects in Python processes of its own on the driver, and pickles the reader to
the tasks; so a reader holds nothing but values. The driver puts the values of its environment (the
server) into the options, because tasks run elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bowstring import contexts
from bowstring.errors import NotSupported
from bowstring.spark import columns, filters, options, places, reading, tables, tasks
from bowstring.spark.clients import client
from bowstring.spark.options import Options, Place
from bowstring.spark.stream import StreamReader

PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The process in which Spark pushes filters down. Spark refuses a reader that takes filters in any
other process.
"""


class Source(DataSource):
    """Reads topics: `spark.read.format("bowstring").option("subscribe", "orders").load()`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bowstring"

    def schema(self) -> StructType:
        """The columns that the options ask for."""
        found = columns.schema(self._parsed(None, {}))
        return tables.remembering(found, self.options) if tables.is_table(self.options) else found

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        asked = self._parsed("batch", tables.recalled(schema))
        columns.check(schema, asked)
        kind = FilteringReader if PUSHING in sys.modules else BatchReader
        return kind(asked, arrow_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read."""
        asked = self._parsed("stream", tables.recalled(schema))
        columns.check(schema, asked)
        return StreamReader(asked, arrow_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refuses a batch write."""
        raise _no_writing()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Refuses a streaming write."""
        raise _no_writing()

    def _parsed(self, kind: Any, recalled: dict[str, str]) -> Options:
        asked = options.parse({**recalled, **tables.own(self.options)}, time.time_ns() // 1000, kind)
        return asked if kind is None else replace(asked, server=_server(asked), context=None)


def _server(asked: Options) -> str:
    """The server that tasks connect to, wherever they run: contexts and variables are those of this
    machine.
    """
    return str(contexts.choose(asked.server, asked.context, written="{}=").server)


def _no_writing() -> NotSupported:
    return NotSupported(
        "writing to topics from Spark comes in a later version.",
        hint="Until then use a producer of bowstring.connect(…) in foreachPartition, or in foreachBatch for streams.",
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for these columns."""
    return to_arrow_schema(schema, timezone="UTC")


class BatchReader(DataSourceReader):
    """Reads from one place to another, both fixed when Spark plans the read."""

    def __init__(self, asked: Options, schema: pa.Schema) -> None:
        self._options = asked
        self._schema = schema
        self._bounds = filters.Bounds("_" if asked.payload in ("json", "arrow") else "")

    def partitions(self) -> Sequence[InputPartition]:
        """What each task reads."""
        asked, connected = self._options, client(self._options)
        standings = places.look(connected, asked)
        start, end = asked.start or Place("earliest", "startingOffsets"), asked.end or Place("latest", "endingOffsets")
        starts = places.resolve(connected, start, standings, asked.strategy)
        ends = places.resolve(connected, end, standings, "latest")
        if asked.fail_on_data_loss:
            places.check_range(starts, ends, standings)
        starts, ends = places.clamp(starts, standings), places.clamp(ends, standings)
        lenient = start.kind == "earliest" or not asked.fail_on_data_loss
        ranges = [
            tasks.Task(name, standings[name].id, number, offset, ends[name][number], lenient)
            for name, offsets in starts.items()
            for number, offset in offsets.items()
        ]
        return tasks.split(self._bounds.narrow(ranges, connected), asked)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if isinstance(partition, tasks.Task):  # Spark makes an empty task if there is none
            yield from reading.read(partition, self._options, self._schema)


class FilteringReader(BatchReader):
    """The same reader, for a Spark that pushes filters down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes filters on topic, partition, offset and timestamp as bounds. Spark applies all of
        them again.
        """
        for given in filters:
            self._bounds.add(given)
        return filters
