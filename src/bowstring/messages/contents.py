"""Checks the values in the columns of a batch.

The kit runs these checks before it sends, so that a program learns of a wrong row at once, and the
broker runs them again on every batch that arrives. Both have the columns as buffers of canonical
layout (offsets from 0, nulls without bytes, zeros for null times), so the checks work on whole
buffers and never loop over rows.

    created, due, expires    from 1970 to before 2200
    id                       1 to 256 bytes of text
    attributes               no name twice in a row; no name of ours

Errors name the first wrong row, counted from 0. NumPy needs 1 to 3 µs for the smallest operation,
so a batch of one message, the usual one of a quiet producer, is checked by hand first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors
from bowstring.messages import limits, schema
from bowstring.messages.metadata import Bytes, Form

_RESERVED = limits.RESERVED_PREFIX.encode()
_MOMENT = struct.Struct("<Q")  # unsigned: a time before 1970 is then far beyond 2200
# The columns to check.
CHECKED: Final = schema.ATTRIBUTES | schema.TIMES | schema.ID


def check(form: Form, rows: int, buffers: Sequence[Bytes], *, reserved_ok: bool) -> None:
    """Refuses invalid rows. `buffers` are all buffers of the form's columns, uncompressed."""
    if not form.mask & CHECKED or (rows == 1 and _one_is_fine(form, buffers, reserved_ok=reserved_ok)):
        return
    for column, at, _ in form.places:
        if column.bit & schema.TIMES:
            _check_moments(column.name, np.frombuffer(buffers[at + 1], np.uint64))
        elif column.bit == schema.ID:
            _check_ids(np.frombuffer(buffers[at + 1], np.int32))
        elif column.bit == schema.ATTRIBUTES:
            _check_attributes(buffers[at + 1], buffers[at + 4], buffers[at + 5], reserved_ok=reserved_ok)


def _one_is_fine(form: Form, buffers: Sequence[Bytes], *, reserved_ok: bool) -> bool:
    """Whether the only row is certainly valid. If not, the checks of all rows decide, and word the
    error.
    """
    for column, at, _ in form.places:
        if column.bit & schema.TIMES:
            fine = _MOMENT.unpack(buffers[at + 1])[0] < limits.MOMENT_MAX
        elif column.bit == schema.ID:
            fine = 0 < len(buffers[at + 2]) <= limits.ID_BYTES_MAX
        elif column.bit == schema.ATTRIBUTES:
            fine = len(buffers[at + 4]) <= 8 and (reserved_ok or _RESERVED not in bytes(buffers[at + 5]))
        else:
            fine = True
        if not fine:
            return False
    return True


def _check_moments(name: str, moments: npt.NDArray[np.uint64]) -> None:
    if moments.max() >= limits.MOMENT_MAX:
        row = int(np.argmax(moments >= limits.MOMENT_MAX))
        raise errors.InvalidArgument(
            f"{name} in row {row} is {int(moments[row].astype(np.int64))} µs since 1970, which is out of range.",
            hint="Times are from 1970-01-01 to before 2200-01-01, in microseconds, UTC.",
        )


def _check_ids(offsets: npt.NDArray[np.int32]) -> None:
    lengths = np.diff(offsets)
    if lengths.min() < 1:
        row = int(np.argmax(lengths < 1))
        raise errors.InvalidArgument(f"The id in row {row} is empty.", hint="Give every row an id, or send no ids at all.")
    if lengths.max() > limits.ID_BYTES_MAX:
        row = int(np.argmax(lengths > limits.ID_BYTES_MAX))
        raise errors.InvalidArgument(
            f"The id in row {row} has {lengths[row]} bytes.", hint=f"An id has at most {limits.ID_BYTES_MAX} bytes as UTF-8."
        )


def _check_attributes(row_offsets: Bytes, name_offsets: Bytes, name_bytes: Bytes, *, reserved_ok: bool) -> None:
    import pyarrow.compute as pc

    offsets = np.frombuffer(row_offsets, np.int32)
    text = bytes(name_bytes)
    names = pa.StringArray.from_buffers(len(name_offsets) // 4 - 1, pa.py_buffer(name_offsets), pa.py_buffer(text))
    # Searching the bytes of all names is cheap, and nearly always finds nothing.
    if not reserved_ok and _RESERVED in text:
        ours = pc.starts_with(names, limits.RESERVED_PREFIX).to_numpy(zero_copy_only=False)
        if ours.any():
            row = int(np.searchsorted(offsets, int(np.argmax(ours)), side="right")) - 1
            raise errors.InvalidArgument(
                f"An attribute in row {row} has a name that begins with {limits.RESERVED_PREFIX!r}.",
                hint="Such names are written by the broker; choose another.",
            )
    counts = np.diff(offsets)
    if counts.max() > 1 and not _are_alike(counts, np.frombuffer(name_offsets, np.int32), text):
        _check_unique(counts, names)


def _are_alike(counts: npt.NDArray[np.int32], ends: npt.NDArray[np.int32], text: bytes) -> bool:
    """Whether all rows have the names of the first row, in its order, and that row has no name
    twice. This is the usual case, and comparing bytes is enough.
    """
    each = int(counts[0])
    if (counts != each).any():
        return False
    first, lengths = text[: ends[each]], np.diff(ends).reshape(-1, each)
    if len(first) * len(counts) != len(text) or (lengths != lengths[0]).any() or text != first * len(counts):
        return False
    return len({first[ends[at] : ends[at + 1]] for at in range(each)}) == each


def _check_unique(counts: npt.NDArray[np.int32], names: pa.StringArray) -> None:
    """Refuses a row that has a name twice: each pair of row and name, as one number, must be
    unique.
    """
    encoded = names.dictionary_encode()
    rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    pairs = rows * len(encoded.dictionary) + encoded.indices.to_numpy()
    pairs.sort()
    twice = pairs[1:] == pairs[:-1]
    if twice.any():
        row, name = divmod(int(pairs[np.argmax(twice)]), len(encoded.dictionary))
        raise errors.InvalidArgument(
            f"Row {row} has the attribute {encoded.dictionary[name].as_py()!r} twice.", hint="Give each attribute of a message once."
        )
