"""Filters applied to many messages at once, with Arrow's kernels: a tree of `filters` and the
columns of a page give booleans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring.messages import filters
from bowstring.messages.filters import ColumnName, Compare, Filter, In, IsNull, Like, Not, Value

ColumnOf = Callable[[str], pa.Array | None]
"""The column of a name over all rows; None if all rows are null."""

_MOMENT = pa.timestamp("us", "UTC")
_TYPES = {"key": pa.binary(), "attributes": pa.utf8(), "partition": pa.int64(), "offset": pa.int64()}
_UNKNOWN = pa.scalar(None, pa.bool_())


def passing(tree: Filter, column_of: ColumnOf, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows pass."""
    found = _Rows(column_of, rows).result(tree)
    if found.null_count:
        found = pc.fill_null(found, False)
    bits = np.frombuffer(found.buffers()[1], np.uint8)
    return np.unpackbits(bits, count=found.offset + rows, bitorder="little")[found.offset :].view(np.bool_)  # a fifth of `to_numpy`


class _Rows:
    """The rows of one page."""

    def __init__(self, column_of: ColumnOf, rows: int) -> None:
        self._column_of = column_of
        self._count = rows
        self._known: dict[ColumnName, pa.Array] = {}

    def result(self, tree: Filter) -> pa.Array:
        """True, false or null for each row."""
        if isinstance(tree, Compare):
            other = self._column(tree.other) if isinstance(tree.other, ColumnName) else _scalar(tree.column, tree.other)
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

    def _column(self, column: ColumnName) -> pa.Array:
        found = self._known.get(column)
        if found is None:
            whole = self._column_of(column.name)
            if whole is None:
                found = pa.nulls(self._count, _type(column))
            elif column.attribute or column.name == "attributes":
                found = _attribute(whole, column.attribute)
            else:
                found = whole
            self._known[column] = found
        return found


def _attribute(maps: pa.Array, name: str) -> pa.Array:
    """The text that each row has for an attribute, the first one; null where there is none. Arrow's
    own `map_lookup` looks at one row after the other and takes many times as long.
    """
    names = _names_of_all(maps)
    if names is not None:
        first = maps.offsets[0].as_py()
        if name.encode() not in names:
            return pa.nulls(len(maps), pa.utf8())
        if len(names) == 1:
            return maps.items.slice(first, len(maps))
        return maps.items.take(pa.array(np.arange(len(maps)) * len(names) + (first + names.index(name.encode()))))
    bounds, entries = np.asarray(maps.offsets), np.flatnonzero(pc.equal(maps.keys, pa.scalar(name, pa.utf8())))
    rows = np.searchsorted(bounds, entries, side="right") - 1
    inside = (rows >= 0) & (rows < len(maps))
    places = np.full(len(maps), -1, np.int64)
    places[rows[inside][::-1]] = entries[inside][::-1]  # the first entry of a row is written last
    missing = places < 0
    if maps.null_count:
        missing |= np.asarray(pc.is_null(maps))
    return maps.items.take(pa.array(places, mask=missing))


def _names_of_all(maps: pa.Array) -> list[bytes] | None:
    """The names that every row has in the same order, as programs write them; None if rows differ."""
    bounds = np.asarray(maps.offsets)
    each = int(bounds[1] - bounds[0]) if len(maps) else 0
    if not each or maps.null_count or not _rise_by(each, bounds):
        return None
    keys = maps.keys
    _, spots, text = keys.buffers()
    ends = np.frombuffer(spots, np.int32)[keys.offset + bounds[0] :][: each * len(maps) + 1]
    names = bytes(text[int(ends[0]) : int(ends[each])]) if text is not None else b""
    is_same = text is None or bytes(text[int(ends[0]) : int(ends[-1])]) == names * len(maps)
    if not is_same or not all(_rise_by(len(names), ends[at::each]) for at in range(each)):
        return None
    return [names[start:end] for start, end in itertools.pairwise((ends[: each + 1] - ends[0]).tolist())]


def _rise_by(step: int, numbers: npt.NDArray[np.int32]) -> bool:
    """Whether each is by so much more than the one before."""
    return bool((numbers[1:] - numbers[:-1] == step).all())


def _type(column: ColumnName) -> pa.DataType:
    return _MOMENT if column.is_time else _TYPES[column.name]


def _scalar(column: ColumnName, value: Value) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(_MOMENT) if column.is_time else pa.scalar(value, _type(column))
