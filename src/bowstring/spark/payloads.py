"""What values hold: bytes, text, a JSON object, or Arrow rows.

JSON is read by Arrow in one go over all values of a batch. That this gives each message its own row is certain: a value has to begin with
`{` and end with `}`, and text cannot reach over the line break that is put between two of them, so that nothing can begin in one value and
end in the next; every value gives at least one row, and there may not be more rows than values.

A value that is not what was promised fails the task, and the sentence names the message: nothing is guessed, nothing left away.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from bowstring.errors import Error, InvalidArgument
from bowstring.spark.columns import OWN, Columns, needed
from bowstring.spark.options import Options

if TYPE_CHECKING:
    from bowstring.client.batch import Batch

LENIENT = "Read it with payload=bytes and decide there, for example with from_json."


class Rows:
    """Makes Spark's batches of ours, all with exactly the schema that was declared."""

    def __init__(self, options: Options, schema: pa.Schema, topic: str, partition: int) -> None:
        self._payload = options.payload
        self._schema = schema
        self._columns = Columns(topic, partition)
        self._place = f"{topic}/{partition}"
        self._typed = self._payload in ("json", "arrow")

    def wanted(self) -> list[str]:
        """The columns to ask the broker for."""
        names = [name[1:] if self._typed else name for name in self._schema.names if not self._typed or name in OWN]
        if len(names) < len(self._schema.names):
            names.append("value")
        if self._typed or (self._payload == "text" and "value" in names):
            names.append("offset")
        return needed(names)

    def make(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Spark's batches of one of ours."""
        if self._payload == "json":
            yield self._with_own(batch, self._json(batch))
        elif self._payload == "arrow":
            yield from self._arrow(batch)
        else:
            yield self._record_batch([self._plain(name, batch) for name in self._schema.names])

    def _record_batch(self, arrays: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _plain(self, name: str, batch: Batch) -> Any:
        column = self._columns.make(name, batch)
        if name != "value" or self._payload != "text":
            return column
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            raise self._wrong(batch, lambda value: value.decode(), "is not UTF-8") from None

    def _with_own(self, batch: Batch, table: dict[str, Any]) -> pa.RecordBatch:
        """The columns of the payload and the message's own, which have one row for each message."""
        return self._record_batch([self._columns.make(name[1:], batch) if name in OWN else table[name] for name in self._schema.names])

    # ---- JSON

    def _json(self, batch: Batch) -> dict[str, Any]:
        fields = [field for field in self._schema if field.name not in OWN]
        if not fields:
            return {}
        values, kinds = pc.fill_null(batch.column("value"), b"{}"), pa.schema(fields)
        try:
            return _parsed(values, kinds)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._wrong(batch, lambda value: _parsed(pa.array([value]), kinds), f"is not JSON of these columns ({error})") from None

    # ---- Arrow

    def _arrow(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Messages of several rows: the message's own columns are repeated for each of them."""
        fields = [field for field in self._schema if field.name not in OWN]
        tables: list[pa.Table] = []
        for row, value in enumerate(batch.column("value")):
            try:
                tables.append(_opened(value.as_buffer(), fields))
            except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
                raise self._wrong_at(batch, row, f"is not an Arrow stream of these columns ({error})") from None
        counts = [table.num_rows for table in tables]
        if not sum(counts):
            return
        whole = pa.concat_tables(tables).combine_chunks()
        repeats = pa.array([row for row, count in enumerate(counts) for _ in range(count)], pa.int64())
        arrays = [
            self._columns.make(name[1:], batch).take(repeats) if name in OWN else _one(whole.column(name)) for name in self._schema.names
        ]
        yield self._record_batch(arrays)

    # ---- what is wrong

    def _wrong(self, batch: Batch, read: Any, what: str) -> Error:
        """The error for the first message that cannot be read."""
        for row, value in enumerate(batch.column("value").to_pylist()):
            try:
                read(b"{}" if value is None else value)
            except (ValueError, pa.ArrowException) as error:
                exact = f"is not JSON of these columns ({error})" if self._payload == "json" else what
                return self._wrong_at(batch, row, exact)
        return InvalidArgument(f"a value of {self._place} {what}.", hint=LENIENT)

    def _wrong_at(self, batch: Batch, row: int, what: str) -> Error:
        offset = batch.column("offset")[row].as_py()
        return InvalidArgument(f"the value of {self._place}@{offset} {what}.", hint=LENIENT)


def _parsed(values: Any, schema: pa.Schema) -> dict[str, Any]:
    """Columns with one row for each value. Dates are read as text first, because Arrow's reader takes numbers of days for them."""
    shaped = pc.match_substring_regex(values.cast(pa.large_string()), r"(?s)^\s*\{.*\}\s*$")
    if not pc.all(shaped).as_py():
        raise pa.ArrowInvalid("it is not one object in braces")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")[0].as_buffer()
    table = arrow_json.read_json(
        pa.BufferReader(joined),
        arrow_json.ReadOptions(use_threads=False, block_size=max(1024, joined.size + 1)),
        arrow_json.ParseOptions(_readable(schema), newlines_in_values=True, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(values):
        raise pa.ArrowInvalid("it is more than one object")
    return {field.name: _one(table.column(field.name).cast(field.type)) for field in schema}


def _readable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, pa.string() if pa.types.is_date(field.type) else field.type) for field in schema])


def _opened(value: Any, fields: list[pa.Field]) -> pa.Table:
    """The rows of one message; columns by name, those that it has not are null."""
    if value is None:
        return pa.schema(fields).empty_table()
    with pa.ipc.open_stream(io.BytesIO(value) if isinstance(value, bytes) else pa.BufferReader(value)) as stream:
        table = stream.read_all()
    arrays = [
        table.column(field.name).cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in fields
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _one(column: Any) -> Any:
    return column.combine_chunks()
