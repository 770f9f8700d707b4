"""Filters applied to many messages at once, with Arrow's kernels: a tree of `filters` and the
columns of a page give booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring.messages import filters
from bowstring.messages.filters import Column, Compare, Filter, In, IsNull, Like, Not, Value

ColumnOf = Callable[[str], pa.Array | None]
"""The column of a name over all rows; None if all rows are null."""

_MOMENT = pa.timestamp("us", "UTC")
_TYPES = {"key": pa.binary(), "attributes": pa.utf8(), "partition": pa.int64(), "offset": pa.int64()}
_UNKNOWN = pa.scalar(None, pa.bool_())


def passing(tree: Filter, column_of: ColumnOf, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows pass."""
    found = _Rows(column_of, rows).result(tree)
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


class _Rows:
    """The rows of one page."""

    def __init__(self, column_of: ColumnOf, rows: int) -> None:
        self._column_of = column_of
        self._count = rows
        self._known: dict[Column, pa.Array] = {}

    def result(self, tree: Filter) -> pa.Array:
        """True, false or null for each row."""
        if isinstance(tree, Compare):
            other = self._column(tree.other) if isinstance(tree.other, Column) else _scalar(tree.column, tree.other)
            return pc.call_function(tree.kernel, [self._column(tree.column), other])
        if isinstance(tree, In):
            column = self._column(tree.column)
            among = (
                pa.array(list(tree.values), pa.int64()).cast(_MOMENT)
                if tree.column.is_time
                else pa.array(list(tree.values), _type(tree.column))
            )
            return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=among), _UNKNOWN)
        if isinstance(tree, Like):
            pattern: Any = tree.pattern
            return pc.match_like(self._column(tree.column), pattern)
        if isinstance(tree, IsNull):
            return pc.is_null(self._column(tree.column))
        if isinstance(tree, Not):
            return pc.invert(self.result(tree.part))
        join = pc.and_kleene if isinstance(tree, filters.Every) else pc.or_kleene
        found = self.result(tree.parts[0])
        for part in tree.parts[1:]:
            found = join(found, self.result(part))
        return found

    def _column(self, column: Column) -> pa.Array:
        found = self._known.get(column)
        if found is None:
            whole = self._column_of(column.name)
            if whole is None:
                found = pa.nulls(self._count, _type(column))
            elif column.attribute or column.name == "attributes":
                found = pc.map_lookup(whole, pa.scalar(column.attribute, pa.utf8()), "first")
            else:
                found = whole
            self._known[column] = found
        return found


def _type(column: Column) -> pa.DataType:
    return _MOMENT if column.is_time else _TYPES[column.name]


def _scalar(column: Column, value: Value) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(_MOMENT) if column.is_time else pa.scalar(value, _type(column))
