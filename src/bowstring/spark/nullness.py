"""NOT NULL in a schema: finds the rows that break it, and makes arrays that carry it in their type.

Spark believes a schema that says NOT NULL and does not look at the validity bits: a missing number
reads as 0. Arrow's readers give nulls whatever a field says. So payloads are read with every field
nullable, this module finds the rows that break the schema, and the other rows get the declared
type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def loose(kind: pa.DataType) -> pa.DataType:
    """The same type with everything inside of it nullable."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(loose(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(loose(kind.value_type)).with_nullable(True))
    return kind


def lacking(array: Any, field: pa.Field, path: str = "") -> Iterator[tuple[Any, str]]:
    """Masks of the rows that have a null where the field allows none, each with the name of the
    part that lacks a value.
    """
    path = f"{path}.{field.name}" if path else field.name
    if not field.nullable and array.null_count:
        yield array.is_null(), path
    if loose(field.type) == field.type:
        return
    if pa.types.is_struct(field.type):
        for inner in field.type:
            for mask, where in lacking(pc.struct_field(array, inner.name), inner, path):
                here = pc.and_(mask, array.is_valid())
                if here.true_count:
                    yield here, where
    else:
        parents = pc.list_parent_indices(array)
        for mask, where in lacking(array.flatten(), field.type.value_field, path):
            yield pc.is_in(pa.array(range(len(array)), parents.type), parents.filter(mask)), where


def declared(array: Any, kind: pa.DataType) -> Any:
    """The same values with the declared type. No row may lack a value."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        parts = [declared(array.field(number), field.type) for number, field in enumerate(kind)]
        return pa.StructArray.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, array.offset, parts)
    if pa.types.is_list(kind):
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(array.offsets, declared(array.values, kind.value_type), type=kind, mask=mask)
    return array.cast(kind)
