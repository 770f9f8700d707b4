"""What a migration asks of Python: SQL knows no CRC-32C and no MessagePack, so these are functions that the scripts call.

A row that does not verify in the format before gets -1 for a checksum, which none is: an upgrade neither hides damage nor trips on it.
"""

from __future__ import annotations

import apsw

from bowstring.catalog import second_format
from bowstring.catalog.extent_rows import extent_values, packed_sections
from bowstring.catalog.state_rows import state_values
from bowstring.ports.failures import Damaged

NO_CHECKSUM = -1


def add_functions(connection: apsw.Connection) -> None:
    """The functions that migrations call, for this connection."""
    for function in (extent_sections, extent_crc, snapshot_crc, chunk_crc):
        connection.create_scalar_function(function.__name__, function, deterministic=True)


def extent_sections(*columns: apsw.SQLiteValue) -> bytes:
    """The sections of an extent out of the eight columns that the second format had for two of them."""
    return packed_sections(second_format.told_sections((*(0,) * 10, *columns)))


def extent_crc(*columns: apsw.SQLiteValue) -> apsw.SQLiteValue:
    """The checksum of an extent, out of all columns that the second format had."""
    try:
        return extent_values(second_format.extent(columns))["crc"]
    except Damaged:
        return NO_CHECKSUM


def snapshot_crc(*columns: apsw.SQLiteValue) -> apsw.SQLiteValue:
    try:
        return state_values(second_format.snapshot(columns))["crc"]
    except Damaged:
        return NO_CHECKSUM


def chunk_crc(*columns: apsw.SQLiteValue) -> apsw.SQLiteValue:
    """The columns of a chunk, and the sequence that it gets."""
    *stored, sequence = columns
    try:
        return state_values(second_format.chunk(stored, int(sequence or 0)))["crc"]
    except Damaged:
        return NO_CHECKSUM
