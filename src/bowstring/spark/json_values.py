"""JSON objects as columns, read by Arrow in one go over all values of a batch.

Each message certainly gets its own row. A value has to begin with `{` and end with `}`, and text
cannot cross the line break between two values, so nothing can begin in one value and end in the
next. Every value gives at least one row, and more rows than values are refused.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from bowstring.spark.nullness import loose


def parsed(values: Any, schema: pa.Schema) -> dict[str, Any]:
    """Columns with one row for each value; missing fields are null. Dates are read as text first,
    because Arrow's reader would accept numbers of days.
    """
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
    return {field.name: table.column(field.name).cast(loose(field.type)).combine_chunks() for field in schema}


def _readable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, pa.string() if pa.types.is_date(field.type) else loose(field.type)) for field in schema])
