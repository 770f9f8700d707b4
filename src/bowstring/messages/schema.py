"""The columns of a batch, and the mask that says which of them a batch has.

A batch carries any of seven columns, in this order. A bit mask in the header of the batch says
which, together with the schema id, so no schema message is sent or stored: a lone value costs 152
bytes of metadata and 24 of its own.

A column is in the mask when at least one row has something in it. A column of nulls is left out
(only a batch of nothing but nulls has one, its `value`), so a batch has exactly one form. `id` is
in all rows or in none.

Schema 1 means that the payload is the `value` column, bytes. Other ids are reserved for payloads
that are columns themselves; the mask then still says which of the other columns the batch has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from bowstring import errors

BYTES_SCHEMA: Final = 1

KEY: Final = 1
VALUE: Final = 2
ATTRIBUTES: Final = 4
CREATED: Final = 8
DUE: Final = 16
EXPIRES: Final = 32
ID: Final = 64
ALL: Final = 127
TIMES: Final = CREATED | DUE | EXPIRES

_MOMENT = pa.timestamp("us", "UTC")


class Column(NamedTuple):
    """A column: the name that users see, its bit in the mask, its Arrow type."""

    name: str
    bit: int
    type: pa.DataType


COLUMNS: Final[tuple[Column, ...]] = (
    Column("key", KEY, pa.binary()),
    Column("value", VALUE, pa.binary()),
    Column("attributes", ATTRIBUTES, pa.map_(pa.utf8(), pa.utf8())),
    Column("created", CREATED, _MOMENT),
    Column("due", DUE, _MOMENT),
    Column("expires", EXPIRES, _MOMENT),
    Column("id", ID, pa.utf8()),
)

ASSIGNED: Final = ("topic", "partition", "offset", "arrived", "producer_group", "transaction")
"""The further columns of a batch that was read. The broker assigns them, so it ignores them in a
batch that is sent.
"""

_BITS: Final = {column.name: column.bit for column in COLUMNS}


@cache
def columns_of(mask: int) -> tuple[Column, ...]:
    """The columns that a mask names, in their order."""
    return tuple(column for column in COLUMNS if column.bit & mask)


@cache
def arrow_schema(mask: int) -> pa.Schema:
    """The Arrow schema of a batch with these columns."""
    return pa.schema([pa.field(column.name, column.type) for column in columns_of(mask)])


def names_of(mask: int) -> str:
    """The columns of a mask as text for people: `key, value`."""
    return ", ".join(column.name for column in columns_of(mask))


def mask_of(names: Iterable[str]) -> int:
    """The mask of these columns; each may be named once."""
    mask = 0
    for name in names:
        bit = _BITS.get(name)
        if bit is None:
            raise errors.InvalidArgument(f"A batch has no column {name!r}.", hint=f"Its columns are {names_of(ALL)}.")
        if mask & bit:
            raise errors.InvalidArgument(f"The column {name!r} is there twice.", hint="Give each column once.")
        mask |= bit
    return mask
