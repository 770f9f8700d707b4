"""A page with what it takes to recognise it: the frame.

    offset  size  field
         0     4  magic, "BOWF"
         4     2  version of this format
         6     2  1 for a copy: its page had another place before, which was referred to when this was written; else 0
         8     8  segment the page was written to; 0 for a page that is inlined in a journal row
        16     8  epoch under which it was written
        24     8  sequence of the flush that wrote it
        32     8  length of the body
        40     4  length of the page header
        44     8  position of this frame in its segment, or among the inlined pages of its row
        52     4  number of the broker in whose journal the page is inlined; 0 in a segment
        56     4  zero
        60     4  CRC-32C of the 60 bytes before, the page header and the body
        64        page header, body, zeros up to a multiple of 64

All numbers are little-endian. Older versions are still read: 1 had zeros in place of kind and position, 1 and 2 in place of the broker.

Segments are recycled files: behind their end lie the pages of an earlier life, whole and with good
checksums. That is why the frame names its segment and its sequence, and why nothing is ever found by scanning: a reader comes with
a reference, and what it finds either is that page or is called damaged, with a sentence that says what differs. The position is there
for disks that write to the wrong place: two pages of one flush, equal in length, differ in nothing else. (Only `orphans` looks
at frames without a reference, to see whether an acknowledgement rests on them, and believes them nothing else.)

The body is never copied here. `frame` answers with a list of buffers to be written one behind the other, `verify` with views into
what was read. There is no I/O in this file. It is below the store and the catalog, which both keep frames: `inlined` makes those of a
journal row, and says where each page is in them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import numpy

from bowstring.core.pages import PageEntry
from bowstring.ports.disk import Buffer
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference

MAGIC = b"BOWF"
VERSION = 3
_VERSION_WITHOUT_POSITION = 1
_VERSION_WITHOUT_BROKER = 2
ALIGNMENT = 64
FRAME_HEADER_BYTES = 64

_FIELDS = struct.Struct("<4sHHQQQQIQI4x")
_CHECKSUM = struct.Struct("<I")
_PADDING = [bytes(n) for n in range(ALIGNMENT)]
assert _FIELDS.size + _CHECKSUM.size == FRAME_HEADER_BYTES


class FrameHeader(NamedTuple):
    """What a frame says of itself."""

    magic: bytes
    version: int
    copy: int
    segment: int
    epoch: int
    sequence: int
    body_bytes: int
    header_bytes: int
    position: int
    broker: int

    @property
    def length(self) -> int:
        return FRAME_HEADER_BYTES + self.header_bytes + self.body_bytes


def header_of(data: Buffer) -> FrameHeader:
    """The fields of what may be a frame, unverified. `data` has at least FRAME_HEADER_BYTES bytes."""
    return FrameHeader._make(_FIELDS.unpack_from(data))


class Inlined(NamedTuple):
    """The pages of a flush that its journal row holds."""

    data: bytes | None
    """Their frames, one behind the other; None if there is no page."""
    references: list[Reference]
    """Where each of them is."""


def inlined(pages: Sequence[Page], broker: int, epoch: int, sequence: int) -> Inlined:
    """The frames of a journal row's small pages, each padded as in a segment."""
    buffers: list[Buffer] = []
    references: list[Reference] = []
    position = 0
    for page in pages:
        buffers += frame(page, 0, epoch, sequence, position, broker=broker)
        references.append(Reference(0, position, framed_length(page), sequence, broker))
        position += padded(references[-1].length)
    return Inlined(b"".join(buffers) if buffers else None, references)


def frame(page: Page, segment: int, epoch: int, sequence: int, position: int, *, copy: bool = False, broker: int = 0) -> list[Buffer]:
    """The frame as buffers, padding included. Only the header, which is small, is copied: it goes into one buffer with the frame's."""
    body_bytes = size(page.body)
    fields = _FIELDS.pack(MAGIC, VERSION, copy, segment, epoch, sequence, body_bytes, len(page.header), position, broker)
    checksum = _extend(google_crc32c.value(fields + page.header), page.body)
    buffers: list[Buffer] = [b"".join((fields, _CHECKSUM.pack(checksum), page.header)), page.body]
    surplus = (len(page.header) + body_bytes) % ALIGNMENT
    if surplus:
        buffers.append(_PADDING[ALIGNMENT - surplus])
    return buffers


def framed_length(page: Page) -> int:
    """The bytes of the frame without its padding: what a reference says."""
    return FRAME_HEADER_BYTES + len(page.header) + size(page.body)


def padded(length: int) -> int:
    """The bytes that a frame of that length takes up, so that the next one is aligned again."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def size(buffer: Buffer) -> int:
    """Bytes, also of a view whose items are wider than one."""
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def reference_of(entry: PageEntry, broker: int = 0) -> Reference:
    """Where the bytes of a page are that an index lists. One that is not in a segment is inlined in that broker's journal."""
    return Reference(entry.segment, entry.position, entry.length, entry.written, 0 if entry.segment else broker)


def verify(data: Buffer, reference: Reference) -> Page:
    """The page that the reference means, as views into `data`, or Damaged."""
    view = memoryview(data)
    if len(view) < max(reference.length, FRAME_HEADER_BYTES):
        raise _damaged(reference, f"only {len(view)} bytes are there")
    magic, version, _, segment, _, sequence, body_bytes, header_bytes, position, broker = _FIELDS.unpack_from(view)
    if magic != MAGIC:
        raise _damaged(reference, "no frame begins here")
    if not _VERSION_WITHOUT_POSITION <= version <= VERSION:
        raise _damaged(reference, f"the frame has format version {version}, and this release reads versions up to {VERSION}")
    if segment != reference.segment:
        raise _damaged(reference, f"the frame belongs to segment {segment:#x}, of which this file is a recycled one or a copy")
    if sequence != reference.sequence:
        raise _damaged(reference, f"the frame belongs to flush {sequence}")
    if position != reference.position and version != _VERSION_WITHOUT_POSITION:
        raise _damaged(reference, f"the frame was written for position {position}, so a disk has put it in the wrong place")
    if broker != reference.broker and version > _VERSION_WITHOUT_BROKER:
        raise _damaged(reference, f"the frame belongs to the journal of broker {broker}")
    if FRAME_HEADER_BYTES + header_bytes + body_bytes != reference.length:
        raise _damaged(reference, f"the frame says {header_bytes} bytes of header and {body_bytes} of body")
    header_end = FRAME_HEADER_BYTES + header_bytes
    page = Page(bytes(view[FRAME_HEADER_BYTES:header_end]), view[header_end : reference.length])
    (stored,) = _CHECKSUM.unpack_from(view, _FIELDS.size)
    found = _extend(google_crc32c.value(bytes(view[: _FIELDS.size]) + page.header), page.body)
    if found != stored:
        raise _damaged(reference, f"the checksum is {found:#010x}, and the frame says {stored:#010x}")
    return page


def _extend(checksum: int, buffer: Buffer) -> int:
    """google_crc32c takes no memoryview and no bytearray; it takes numpy's, which costs no copy."""
    if isinstance(buffer, bytes):
        return google_crc32c.extend(checksum, buffer)
    return google_crc32c.extend(checksum, numpy.frombuffer(buffer, numpy.uint8))  # type: ignore[arg-type]


def _damaged(reference: Reference, difference: str) -> Damaged:
    segment, position, length, sequence, broker = reference
    where = f"segment {segment:#x} at {position}" if segment else f"broker {broker}'s journal row {sequence} at {position}"
    return Damaged(f"the page in {where} ({length} bytes, flush {sequence}) is damaged: {difference}")
