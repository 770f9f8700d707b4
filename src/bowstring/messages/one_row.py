"""Recognises the commonest batch quickly: one row with a value, perhaps a key, and the moment it was
created.

`layout.check` needs about 30 µs for such a batch, most of it in pyarrow. But nothing of it is free:
its canonical bytes follow from the columns and the lengths of the texts, except for the texts
themselves and the moment. So the head is compared with the one that we would write, which is kept
for lengths that were seen lately, and the few bytes behind it are looked at one by one. What is not
recognised here is not thereby wrong: `layout.check` decides about it, and words the error.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from bowstring.messages import limits, schema
from bowstring.messages.metadata import ZEROS, form

BYTES_MAX: Final = 4096
"""Larger batches are left to the full check, whose cost does not matter for them."""
_MASKS: Final = (
    schema.VALUE,
    schema.KEY | schema.VALUE,
    schema.VALUE | schema.CREATED,
    schema.KEY | schema.VALUE | schema.CREATED,
)
_HEAD_BYTES: Final = {mask: form(mask).size for mask in _MASKS}
_OFFSETS: Final = struct.Struct("<ii")
_MOMENT: Final = struct.Struct("<Q")  # unsigned: a time before 1970 is then far beyond 2200
_NO_TEXT: Final = -1


def is_canonical(mask: int, data: bytes | bytearray | memoryview) -> bool:
    """Whether a batch of one row with these columns is certainly canonical."""
    at, size = _HEAD_BYTES.get(mask, BYTES_MAX), len(data)
    if at + 8 > size or size > BYTES_MAX:
        return False
    row = data if type(data) is bytes else bytes(data)
    key = 0
    if mask & schema.KEY:
        key = _text_bytes(row, at)
        at = (at + key + 15) & -8
        if key == _NO_TEXT or at + 8 > size:
            return False
    value = _text_bytes(row, at)
    at = (at + value + 15) & -8
    if value == _NO_TEXT or not row.startswith(_head(mask, key, value)):
        return False
    if mask & schema.CREATED:
        return at + 8 == size and _MOMENT.unpack_from(row, at)[0] < limits.MOMENT_MAX
    return at == size


def _text_bytes(row: bytes, at: int) -> int:
    """The length of a text whose offsets stand here, if it begins at 0 and zeros follow on it."""
    first, length = _OFFSETS.unpack_from(row, at)
    end = at + 8 + length
    if first or length < 0 or row[end : (end + 7) & -8] != ZEROS[-end & 7]:
        return _NO_TEXT
    return length


@lru_cache(1024)
def _head(mask: int, key: int, value: int) -> bytes:
    """The head of a batch of one row whose texts have these lengths."""
    lengths = (0, 8, key, 0, 8, value) if mask & schema.KEY else (0, 8, value)
    if mask & schema.CREATED:
        lengths += (0, 8)
    return form(mask).write(1, lengths, (1, 0) * len(schema.columns_of(mask)))
