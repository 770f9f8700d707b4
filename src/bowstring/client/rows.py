"""Rows as `send` gathers them: (value, stamp, key, attributes, due, expires, id), or the first two
or three of these.

Here are their sizes, their partitions, and the attributes that many rows share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bowstring.messages import hashing, ids

PLAIN: Final = 2
"""Entries of a row: value, stamp."""
KEYED: Final = 3
"""Entries of a row with a key."""
FULL: Final = 7
"""Entries of a row with anything more."""

ROW_BYTES: Final = 64
"""What a row counts beside its own bytes: offsets and times on the wire, and the objects that hold
it here."""

KNOWN_MAX: Final = 1024
"""How many attributes a producer remembers."""

Row = tuple[Any, ...]


class Attributes(dict[str, str]):
    """The checked attributes of a row. Rows with the same attributes share one object, which a
    batch writes once."""

    __slots__ = ("size",)

    def __init__(self, checked: Mapping[str, str]) -> None:
        super().__init__(checked)
        self.size = sum(16 + _utf8_bytes(name) + _utf8_bytes(text) for name, text in self.items())
        """Their size, never less than on the wire."""


class KnownAttributes(dict[tuple[tuple[str, str], ...], Attributes]):
    """Attributes by their pairs. Most programs use a few again and again; these are checked once.
    Any thread may add some. It is emptied when there are too many."""

    def add(self, checked: Mapping[str, str]) -> Attributes:
        """Remembers attributes that were checked."""
        pairs = tuple(checked.items())
        known = self.get(pairs)
        if known is None:
            if len(self) >= KNOWN_MAX:
                self.clear()
            known = self[pairs] = Attributes(checked)
        return known


def partition_for(key: bytes | None, given: str | None, partitions: int) -> int | None:
    """The partition of a message: by its key, else the one that a generated id names, else by the
    id; None without key and id."""
    if key is not None:
        return hashing.partition_of(key, partitions)
    if given is None:
        return None
    generated = ids.parse(given)
    if generated is not None and generated.partition < partitions:
        return generated.partition
    return hashing.partition_of(given.encode(), partitions)


def row_bytes(row: Row) -> int:
    """The size of a row, never less than on the wire."""
    value, _, key, attributes, _, _, given = row
    size = ROW_BYTES + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
    if attributes is not None:
        size += attributes.size
    return size if given is None else size + 16 + _utf8_bytes(given)


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else 4 * len(text)
