"""Rows as `send` gathers them: (value, stamp, key, attributes, due, expires, id), or the first two or three of these."""

from __future__ import annotations

from typing import Any, Final

from bowstring.messages import hashing, ids

ROW_BYTES: Final = 64
"""What a row counts beside its own bytes: offsets and times on the wire, and the objects that hold it here."""

Row = tuple[Any, ...]


def partition_for(key: bytes | None, given: str | None, partitions: int) -> int | None:
    """The partition of a message: by its key, else as a generated id names it, else by the id; None if there is neither."""
    if key is not None:
        return hashing.partition_of(key, partitions)
    if given is None:
        return None
    generated = ids.parse(given)
    if generated is not None and generated.partition < partitions:
        return generated.partition
    return hashing.partition_of(given.encode(), partitions)


def row_bytes(row: Row) -> int:
    """What a row counts, never less than it has on the wire."""
    value, _, key, attributes, _, _, given = row
    size = ROW_BYTES + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    if attributes is not None:
        for name, text in attributes.items():
            size += 16 + (len(name) + len(text) if name.isascii() and text.isascii() else 4 * (len(name) + len(text)))
    return size if given is None else size + 16 + _utf8_bytes(given)


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)
