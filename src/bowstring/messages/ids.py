"""Generated ids: the names of messages whose program gave none.

A batch has an id: its producer's (a UUID) and the producer's running number. Together with the
partition and the row this names every message in it, so no id column has to be sent or stored, and
one entry in the deduplication stands for a whole batch:

    0193f0c2a1b87c3d9e4f5a6b7c8d9e0f-1a-3-2f
    producer (32 hexadecimal digits) · number · partition · row, each in hexadecimal without leading zeros

A program that passes such an id back (to find, delete or send again) means that message. So there
must be no doubt which ids are generated: `parse` accepts exactly what `generated` writes, and
everything else is a natural id.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PRODUCER_BYTES: Final = 16

# The number has 64 bits, partition and row have 32, all without a sign.
_GENERATED = re.compile(r"([0-9a-f]{32})-(0|[1-9a-f][0-9a-f]{0,15})-(0|[1-9a-f][0-9a-f]{0,7})-(0|[1-9a-f][0-9a-f]{0,7})")
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


class GeneratedId(NamedTuple):
    """What a generated id names: a row that this producer's batch of this number had in this
    partition.
    """

    producer: bytes
    number: int
    partition: int
    row: int


def generated(producer: bytes, number: int, partition: int, row: int) -> str:
    """The id of one row."""
    return f"{producer.hex()}-{number:x}-{partition:x}-{row:x}"


def parse(text: str) -> GeneratedId | None:
    """What a generated id names; None for every other text."""
    match = _GENERATED.fullmatch(text)
    if match is None:
        return None
    producer, number, partition, row = match.groups()
    return GeneratedId(bytes.fromhex(producer), int(number, 16), int(partition, 16), int(row, 16))


def column(producer: bytes, number: int, partition: int, rows: npt.NDArray[np.int64]) -> pa.Array:
    """The ids of ascending rows of a batch as an Arrow column, 20 to 25 ns a row.

    Rows with the same number of digits have ids of the same length, and stand together: each such
    run is a matrix of characters.
    """
    prefix = np.frombuffer(f"{producer.hex()}-{number:x}-{partition:x}-".encode(), np.uint8)
    runs: list[npt.NDArray[np.uint8]] = []
    lengths: list[npt.NDArray[np.int32]] = []
    start = 0
    while start < len(rows):
        digits = len(f"{rows[start]:x}")
        run = rows[start : int(rows.searchsorted(1 << 4 * digits))]
        text = np.empty((len(run), len(prefix) + digits), np.uint8)
        text[:, : len(prefix)] = prefix
        for digit in range(digits):
            text[:, -1 - digit] = _DIGITS[run >> 4 * digit & 15]
        runs.append(text.ravel())
        lengths.append(np.full(len(run), text.shape[1], np.int32))
        start += len(run)
    offsets = np.zeros(len(rows) + 1, np.int32)
    if runs:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    text = np.concatenate(runs) if runs else np.zeros(0, np.uint8)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(text))
