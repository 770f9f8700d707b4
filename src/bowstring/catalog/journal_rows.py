"""A journal row, whatever database keeps it: its checksum, and its inlined pages.

A bit that flips in a database's own page is served silently, so each row has a CRC-32C of its own over sequence, epoch, changes and
the length of the inlined pages. The bytes of the pages are not in it: every page is a frame with a checksum of its own, and so a
journal of many megabytes is checked at load without reading pages that nobody has asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import google_crc32c

from bowstring.ports.catalog import Row
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page
from bowstring.store import frames

_HEAD = struct.Struct("<qqq")


def checksum(sequence: int, epoch: int, changes: bytes, pages_length: int) -> int:
    """The CRC-32C of a journal row. A row without inlined pages counts as one with 0 bytes of them."""
    return google_crc32c.extend(google_crc32c.value(_HEAD.pack(sequence, epoch, pages_length)), changes)


def inline(pages: Sequence[Page], epoch: int, sequence: int) -> bytes | None:
    """The frames of a row's small pages, one behind the other, each padded as in a segment; None for a row without any."""
    if not pages:
        return None
    buffers: list[Buffer] = []
    position = 0
    for page in pages:
        buffers += frames.frame(page, 0, epoch, sequence, position)
        position += frames.padded(frames.framed_length(page))
    return b"".join(buffers)


def verified(after: int, stored: Iterable[Sequence[object]]) -> list[Row]:
    """The rows behind `after` out of (sequence, epoch, crc, changes, length of pages), or Damaged naming the first that is not right."""
    rows: list[Row] = []
    expected = after + 1
    for sequence, epoch, crc, changes, pages_length in stored:
        if sequence != expected:
            raise Damaged(f"journal row {expected} is missing: behind {expected - 1} comes {sequence}")
        if not isinstance(epoch, int) or not isinstance(changes, bytes) or not isinstance(pages_length, int | None):
            raise Damaged(f"journal row {expected} holds values of the wrong type")
        if checksum(expected, epoch, changes, pages_length or 0) != crc:
            raise Damaged(f"journal row {expected} does not verify: its checksum is not the stored one")
        rows.append(Row(expected, epoch, changes))
        expected += 1
    return rows
