"""The description of a backup: its origin, and every file with its size and CRC-32C. Written last,
and checked first.
"""

from __future__ import annotations

import google_crc32c
import msgspec

from bowstring import errors

NAME = "manifest.json"
FORMAT = 1


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup."""

    name: str
    bytes: int
    crc32c: int


class Manifest(msgspec.Struct, frozen=True):
    """A backup as a whole."""

    format: int
    software: str
    made: str
    """When, in UTC."""
    cluster: str
    epoch: int
    sequence: int
    """The last flush that is in it."""
    catalog_format: int
    files: list[FileEntry]
    damaged: list[str]
    """The damage that was there when it was made."""


class _Sealed(msgspec.Struct):
    """A manifest at rest. The checksum is of the bytes of `manifest` as they stand there."""

    crc32c: int
    manifest: msgspec.Raw


def encode(manifest: Manifest) -> bytes:
    content = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(google_crc32c.value(content), msgspec.Raw(content))) + b"\n"


def decode(data: bytes, place: str) -> Manifest:
    """Raises Corrupt for a damaged manifest or something else, NotSupported for a later format."""
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
        if google_crc32c.value(bytes(sealed.manifest)) != sealed.crc32c:
            raise errors.Corrupt(f"{place} is damaged: its checksum is not the one that it was written with.")
        if (found := msgspec.json.decode(sealed.manifest, type=_Format).format) > FORMAT:
            raise errors.NotSupported(
                f"{place} has format {found}; this software reads the formats up to {FORMAT}.",
                hint="Use the version of Bowstring that made the backup, or a later one.",
                details={"format": str(found), "format_max": str(FORMAT)},
            )
        return msgspec.json.decode(sealed.manifest, type=Manifest)
    except msgspec.DecodeError as error:
        raise errors.Corrupt(f"{place} is no manifest of a backup: {error}.") from error


class _Format(msgspec.Struct):
    format: int
