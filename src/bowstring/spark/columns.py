"""The columns of a read: their Spark types, and how each comes from a batch without a loop over
rows.

Spark accepts an Arrow batch only if its schema is exactly the declared one, and checks only the
first batch; so every batch gets the declared schema. Columns of the broker pass through unchanged,
constant columns are made once and sliced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from bowstring.errors import InvalidArgument
from bowstring.spark.options import Options

if TYPE_CHECKING:
    from bowstring.client.batch import Batch

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_LOG: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
_HEADERS: Final[dict[str, DataType]] = {"headers": ArrayType(_HEADER)}
_METADATA: Final[dict[str, DataType]] = {
    "id": StringType(),
    "attributes": MapType(StringType(), StringType()),
    "created": TimestampType(),
    "due": TimestampType(),
    "producer_group": StringType(),
}
KNOWN: Final = {**_LOG, **_HEADERS, **_METADATA}
SOURCES: Final = {"timestamp": "arrived", "headers": "attributes"}
"""Columns that come from one of another name."""
CONSTANT: Final = {"topic", "partition", "timestampType"}
OWN: Final = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers")
"""The names of a message's own columns when a typed payload has columns too."""
PROBLEM: Final = "_problem"
"""The column that says why a payload could not be read; its other columns are null."""
ALWAYS: Final = {"topic", "partition", "offset", "timestamp", "timestampType"}
"""Columns that every message has, so they may always be NOT NULL."""
LOG_APPEND_TIME: Final = 1
"""The name of the time of arrival in Spark's Kafka source."""


def schema(options: Options) -> StructType:
    """The columns that the options ask for."""
    if options.payload in ("json", "arrow"):
        raise InvalidArgument(
            f"payload={options.payload} does not say which columns the messages have.",
            hint="Name them: .schema('order bigint, amount double, _offset bigint').",
        )
    known = [*KNOWN, *([PROBLEM] if options.payload == "text" else [])]
    names = list(_LOG if options.columns is None else options.columns)
    if unknown := [name for name in names if name not in known]:
        raise InvalidArgument(f"there is no column '{unknown[0]}'.", hint=f"There are {', '.join(known)}.")
    names += [name for name in _HEADERS if options.headers and name not in names]
    names += [name for name in _METADATA if options.metadata and name not in names]
    if options.on_bad_payload == "null" and options.columns is None:
        names.append(PROBLEM)
    return StructType([StructField(name, kind(name, options)) for name in names])


def kind(name: str, options: Options) -> DataType:
    """The Spark type of a column of the log."""
    return StringType() if name == PROBLEM or (name == "value" and options.payload == "text") else KNOWN[name]


def check(given: StructType, options: Options) -> None:
    """Refuses a schema with unknown columns, with wrong types, or with other columns than the
    options ask for.
    """
    typed = options.payload in ("json", "arrow")
    for field in given.fields:
        _check_nullable(field, typed, options)
        if field.name == PROBLEM and options.payload != "bytes":
            own = PROBLEM
        elif typed and field.name not in OWN:
            _check_payload(field, options)
            continue
        else:
            own = field.name[1:] if typed else field.name
        if own not in KNOWN and own != PROBLEM:
            raise InvalidArgument(f"the schema has a column '{field.name}'.", hint=f"There are {', '.join(KNOWN)}.")
        if field.dataType != kind(own, options):
            right = kind(own, options).simpleString()
            raise InvalidArgument(f"the schema has '{field.name}' as {field.dataType.simpleString()}.", hint=f"It is {right}.")
    if options.chooses_columns and given.names != schema(options).names:
        asked = ", ".join(schema(options).names)
        raise InvalidArgument(
            f"the schema has {', '.join(given.names)}, and {options.chooses_columns} asks for {asked}.",
            hint=f"Omit {options.chooses_columns}, or give no schema.",
        )


def _check_payload(field: StructField, options: Options) -> None:
    if options.payload == "json" and not _in_json(field.dataType):
        problem = f"payload=json cannot read '{field.name}' as {field.dataType.simpleString()}."
        raise InvalidArgument(problem, hint="Take it as text with payload=text, and from_json.")


def _check_nullable(field: StructField, typed: bool, options: Options) -> None:
    """With `onBadPayload=null`, every column that a bad payload can make null must be nullable."""
    own = field.name[1:] if typed and field.name in OWN else "" if typed else field.name
    if options.on_bad_payload == "null" and not field.nullable and own not in ALWAYS:
        raise InvalidArgument(
            f"the schema has '{field.name}' as NOT NULL, and onBadPayload=null makes nulls.",
            hint="Omit NOT NULL, or use onBadPayload=skip.",
        )


def _in_json(kind: DataType, inside: bool = False) -> bool:
    """Whether Arrow's reader of JSON can give this type; dates only as columns, not inside of them."""
    if isinstance(kind, StructType):
        return all(_in_json(field.dataType, True) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _in_json(kind.elementType, True)
    if isinstance(kind, DateType):
        return not inside
    return isinstance(kind, NumericType | StringType | BinaryType | BooleanType | TimestampType | TimestampNTZType)


def needed(names: list[str]) -> list[str]:
    """The reader's columns that these columns need; at least one."""
    found = [SOURCES.get(name, name) for name in names if name not in CONSTANT]
    return list(dict.fromkeys(found)) or ["offset"]


class Columns:
    """Makes the columns of one partition of a topic."""

    def __init__(self, topic: str, partition: int) -> None:
        self._values: dict[str, Any] = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
            "timestampType": pa.scalar(LOG_APPEND_TIME, pa.int32()),
        }
        self._made: dict[str, Any] = {}

    def make(self, name: str, batch: Batch) -> Any:
        """A column over all rows of the batch."""
        if name in CONSTANT:
            return self._constant(name, len(batch))
        column = batch.column(SOURCES.get(name, name))
        change = _CHANGES.get(name)
        return column if change is None else change(column)

    def _constant(self, name: str, rows: int) -> Any:
        made = self._made.get(name)
        if made is None or len(made) < rows:
            made = self._made[name] = pa.repeat(self._values[name], rows)
        return made.slice(0, rows)


def _headers(attributes: Any) -> Any:
    """Pairs of text and bytes, in the memory of the map."""
    pairs = pa.StructArray.from_arrays([attributes.keys, attributes.items.view(pa.binary())], names=["key", "value"])
    offsets = attributes.offsets
    if attributes.null_count:
        return pa.ListArray.from_arrays(offsets, pairs, mask=attributes.is_null())
    return pa.ListArray.from_arrays(offsets, pairs)


_CHANGES: Final[dict[str, Callable[[Any], Any]]] = {
    "headers": _headers,
    "producer_group": lambda column: column.dictionary_decode(),
}
