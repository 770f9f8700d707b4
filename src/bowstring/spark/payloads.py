"""Reads payloads: bytes, text, a JSON object, or Arrow rows; and handles messages whose value is
something else.

A message is bad if its value cannot be read, or lacks what the schema says is NOT NULL.
`onBadPayload` decides: the task fails with a sentence that names the message (`fail`); the
payload's columns are null and `_problem` says why (`null`); or the message is left out, and the
task logs how many it left out (`skip`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bowstring.errors import InvalidArgument
from bowstring.spark import json_values
from bowstring.spark.columns import OWN, PROBLEM, Columns, needed
from bowstring.spark.nullness import declared, lacking, loose
from bowstring.spark.options import Options

if TYPE_CHECKING:
    from bowstring.client.batch import Batch

LENIENT: Final = "Set onBadPayload to null or skip, or read it with payload=bytes and decide there, for example with from_json."
LOG: Final = logging.getLogger("bowstring.spark")
_UNREADABLE: Final = (pa.ArrowException, ValueError, KeyError, TypeError)

Problems = dict[int, str]
"""What is wrong with each bad message, as a sentence, by row of the batch."""


class Rows:
    """Turns our batches into Spark's, all with exactly the declared schema."""

    def __init__(self, options: Options, schema: pa.Schema, topic: str, partition: int) -> None:
        self._payload = options.payload
        self._policy = options.on_bad_payload
        self._schema = schema
        self._columns = Columns(topic, partition)
        self._place = f"{topic}/{partition}"
        self._typed = self._payload in ("json", "arrow")
        self._strict = [field for field in schema if not field.nullable or loose(field.type) != field.type]
        self._fields = [field for field in schema if self._typed and field.name not in OWN and field.name != PROBLEM]
        self._names = {field.name for field in self._fields}
        self.skipped = 0
        """Messages that were left out."""
        self._first_skipped = ""

    def wanted(self) -> list[str]:
        """The columns to ask the broker for."""
        named = [name for name in self._schema.names if name != PROBLEM]
        names = [name[1:] if self._typed else name for name in named if not self._typed or name in OWN]
        if len(names) < len(named):
            names.append("value")
        if self._typed or self._strict or (self._payload == "text" and "value" in names):
            names.append("offset")
        return needed(names)

    def make(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """The batches for Spark from one of ours."""
        problems: Problems = {}
        sources = None
        if self._payload == "arrow":
            payload, sources = self._arrow(batch, problems)
        elif self._payload == "json":
            payload = self._json(batch, problems)
        else:
            payload = self._text(batch, problems)
        arrays = {name: payload[name] if name in payload else self._own(name, batch, sources) for name in self._schema.names}
        self._check_lacking(batch, arrays, sources, problems)
        if problems:
            arrays = self._treated(arrays, sources, problems, len(batch))
        if all(map(len, arrays.values())):
            yield pa.RecordBatch.from_arrays([declared(arrays[field.name], field.type) for field in self._schema], schema=self._schema)

    def report(self) -> None:
        """Logs in the worker how many messages were left out."""
        if self.skipped:
            LOG.warning("onBadPayload=skip left out %d messages of %s. The first: %s", self.skipped, self._place, self._first_skipped)

    def _own(self, name: str, batch: Batch, sources: Any) -> Any:
        """A column of the message itself, once for each of its rows."""
        if name == PROBLEM:
            return pa.nulls(len(batch) if sources is None else len(sources), pa.string())
        column = self._columns.make(name[1:] if self._typed else name, batch)
        return column if sources is None else column.take(sources)

    # ---- values

    def _text(self, batch: Batch, problems: Problems) -> dict[str, Any]:
        if self._payload != "text" or "value" not in self._schema.names:
            return {}
        column = batch.column("value")
        return self._read(batch, column, lambda values: {"value": values.cast(pa.string())}, "is not UTF-8", problems)

    def _json(self, batch: Batch, problems: Problems) -> dict[str, Any]:
        if not self._fields:
            return {}
        schema, values = pa.schema(self._fields), pc.fill_null(batch.column("value"), b"{}")
        return self._read(batch, values, lambda some: json_values.parsed(some, schema), "is not JSON of these columns ({})", problems)

    def _read(self, batch: Batch, values: Any, read: Callable[[Any], dict[str, Any]], what: str, problems: Problems) -> dict[str, Any]:
        """Reads all values at once; if that fails, again with an empty object in place of each bad
        one.
        """
        try:
            return read(values)
        except _UNREADABLE:
            for row, error in _bad(values, read, 0):
                self._note(batch, row, f"the value of {{}} {what.format(error)}.", problems)
        return read(pc.if_else(pa.array(_good(len(values), problems)), values, pa.scalar(b"{}", values.type)))

    def _arrow(self, batch: Batch, problems: Problems) -> tuple[dict[str, Any], Any]:
        """The rows of messages with several rows, and the message of each row. A bad message has
        one row of nulls.
        """
        tables: list[pa.Table] = []
        nothing = pa.table([pa.nulls(1, loose(field.type)) for field in self._fields], schema=_nullable(self._fields))
        for row, value in enumerate(batch.column("value")):
            try:
                tables.append(_opened(value.as_buffer(), self._fields))
            except _UNREADABLE as error:
                self._note(batch, row, f"the value of {{}} is not an Arrow stream of these columns ({error}).", problems)
                tables.append(nothing)
        sources = pa.array(np.repeat(np.arange(len(tables)), [table.num_rows for table in tables]))
        whole = pa.concat_tables(tables)
        return {field.name: whole.column(field.name).combine_chunks() for field in self._fields}, sources

    # ---- bad messages

    def _note(self, batch: Batch, row: int, sentence: str, problems: Problems) -> None:
        """Notes a bad message: raises its error, or keeps it for later."""
        said = sentence.format(f"{self._place}@{batch.column('offset')[row].as_py()}")
        if self._policy == "fail":
            raise InvalidArgument(said, hint=LENIENT if self._payload != "bytes" else "Omit NOT NULL.")
        problems.setdefault(row, said)

    def _check_lacking(self, batch: Batch, arrays: dict[str, Any], sources: Any, problems: Problems) -> None:
        """Finds messages that lack a field which the schema declares NOT NULL."""
        for field in self._strict:
            what = "the value of {}" if field in self._fields else "the message {}"
            for mask, where in lacking(arrays[field.name], field):
                rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
                for row in (rows if sources is None else np.unique(sources.to_numpy()[rows])).tolist():
                    if row not in problems:
                        self._note(batch, row, f"{what} has no '{where}', and the schema says NOT NULL.", problems)

    def _treated(self, arrays: dict[str, Any], sources: Any, problems: Problems, count: int) -> dict[str, Any]:
        """The columns as the policy wants them if some messages are bad."""
        good = _good(count, problems)
        kept = pa.array(good if sources is None else good[sources.to_numpy()])
        if self._policy == "skip":
            self._first_skipped = self._first_skipped or problems[min(problems)]
            self.skipped += len(problems)
            return {name: array.filter(kept) for name, array in arrays.items()}
        told = pa.array([problems.get(row) for row in range(count)], pa.string())
        nulled = [name for name in arrays if name in (self._names if self._typed else ("value",))]
        changed = {name: pc.if_else(kept, arrays[name], pa.scalar(None, arrays[name].type)) for name in nulled}
        if PROBLEM in arrays:
            changed[PROBLEM] = told if sources is None else told.take(sources)
        return {**arrays, **changed}


def _good(count: int, problems: Problems) -> NDArray[np.bool_]:
    """Which messages are not bad."""
    good = np.ones(count, bool)
    good[list(problems)] = False
    return good


def _bad(values: Any, read: Callable[[Any], object], first: int) -> Iterator[tuple[int, Exception]]:
    """The unreadable values, found by bisection: few bad ones among many cost few reads."""
    try:
        read(values)
    except _UNREADABLE as error:
        if len(values) == 1:
            yield first, error
            return
        half = len(values) // 2
        yield from _bad(values.slice(0, half), read, first)
        yield from _bad(values.slice(half), read, first + half)


def _nullable(fields: list[pa.Field]) -> pa.Schema:
    return pa.schema([pa.field(field.name, loose(field.type)) for field in fields])


def _opened(value: Any, fields: list[pa.Field]) -> pa.Table:
    """The rows of one message; columns by name, missing ones are null."""
    schema = _nullable(fields)
    if value is None:
        return schema.empty_table()
    with pa.ipc.open_stream(pa.BufferReader(value)) as stream:
        table = stream.read_all()
    arrays = [
        table.column(field.name).cast(field.type).combine_chunks() if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in schema
    ]
    for array, field in zip(arrays, fields, strict=True):
        if (found := next(lacking(array, field), None)) is not None:
            raise ValueError(f"it has no '{found[1]}' in row {pc.index(found[0], True).as_py()}, and the schema says NOT NULL")
    return pa.table(arrays, schema=schema)
