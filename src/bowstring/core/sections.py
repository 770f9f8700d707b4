"""Sections: data in the store, other than pages, that finds pages and ids again. Each is a frame
like a page, with a header that names its kind.

    index      the pages of an extent: the columns of `PageIndex`
    ids        the directory of an extent's hashes: where buckets begin, and where the blocks are (`id_sections`)
    id-block   keys and distances of some entries
    due        the directory of an extent's due times (`due_blocks`)
    due-block  due times and distances of some rows

Numbers are little-endian, 64 bits in an index and in the references to blocks, 32 in the rest. A
header is a MessagePack array that begins with the section's kind and version; that of a page begins
with a number, so a frame tells what it is.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from bowstring.core.id_sections import BlockPlace, Built
from bowstring.core.pages import PageEntry, PageIndex

VERSION = 1
INDEX_VERSION = 2
"""The first had no column that says when a page became visible."""
INDEX, IDS, ID_BLOCK, DUE, DUE_BLOCK = "index", "ids", "id-block", "due", "due-block"


class UnreadableSection(Exception):
    """A section of the wrong kind, or of a later version."""


class SectionHeader(msgspec.Struct, array_like=True, gc=False):
    """What a section says of itself. `count` is the number of pages or entries, `detail` the bits of an ids section, in an index the
    earliest due time, 0 if no row has one, and in a due section how many pages could not be read."""

    kind: str
    version: int
    topic: int
    partition: int
    first_offset: int
    end_offset: int
    count: int
    detail: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SectionHeader)


def encode_header(header: SectionHeader) -> bytes:
    return _encoder.encode(header)


def decode_header(data: bytes | memoryview, kind: str = "") -> SectionHeader:
    """Raises Unreadable for anything but a section, of that kind if one is named."""
    try:
        header = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise UnreadableSection(f"it is no section: {error}") from error
    newest = version_of(header.kind)
    if not 1 <= header.version <= newest:
        raise UnreadableSection(f"the section has version {header.version}, this release reads {newest}")
    if kind and header.kind != kind:
        raise UnreadableSection(f"it is a section of kind {header.kind}, not {kind}")
    return header


def version_of(kind: str) -> int:
    """The version that a section of that kind is written with."""
    return INDEX_VERSION if kind == INDEX else VERSION


def encode_index(entries: list[PageEntry]) -> bytes:
    """The pages of an extent."""
    return np.array(entries, np.dtype("<i8")).T.tobytes()


def decode_index(header: SectionHeader, body: memoryview) -> PageIndex:
    columns = len(PageEntry._fields) - (header.version < INDEX_VERSION)
    if len(body) != 8 * columns * header.count:
        raise UnreadableSection(f"an index of {header.count} pages has {len(body)} bytes")
    found = np.frombuffer(body, np.dtype("<i8")).reshape(columns, header.count)
    if header.version < INDEX_VERSION:
        found = np.concatenate((found, np.zeros((1, header.count), np.int64)))
    return PageIndex.of(found)


def encode_directory(built: Built, blocks: list[BlockPlace]) -> bytes:
    """The directory of an ids section whose blocks have been placed."""
    return built.starts.astype("<u4").tobytes() + np.array(blocks, np.dtype("<i8")).tobytes()


def decode_directory(header: SectionHeader, body: memoryview) -> tuple[NDArray[np.uint32], list[BlockPlace]]:
    """Where buckets begin, and where the blocks are."""
    starts_bytes = 4 * ((1 << header.detail) + 1)
    if len(body) < starts_bytes or (len(body) - starts_bytes) % 24:
        raise UnreadableSection(f"a directory of {header.detail} bits has {len(body)} bytes")
    places = np.frombuffer(body[starts_bytes:], np.dtype("<i8")).reshape(-1, 3)
    return np.frombuffer(body[:starts_bytes], np.dtype("<u4")), [BlockPlace(*place) for place in places.tolist()]


def encode_block(keys: NDArray[np.uint32], distances: NDArray[np.uint32]) -> bytes:
    return keys.astype("<u4").tobytes() + distances.astype("<u4").tobytes()


def decode_block(header: SectionHeader, body: memoryview) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Keys and distances."""
    if len(body) != 8 * header.count:
        raise UnreadableSection(f"a block of {header.count} entries has {len(body)} bytes")
    both = np.frombuffer(body, np.dtype("<u4"))
    return both[: header.count], both[header.count :]
