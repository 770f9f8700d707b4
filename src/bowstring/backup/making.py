"""A backup made from a data directory and a copy of its catalog.

Of each segment that the catalog refers to just the frames that are referred to are copied, to the
places where they were, and verified on the way: what lies between them is dead, or was deleted, and
is a hole in the copy. Then each file is read once more for its checksum. A damaged page is copied
as it is and told in the manifest: a backup of what is left is better than none.

TARGET is empty before, and holds a file `incomplete` until the manifest is there. With a broker
that serves, that file proves that the caller may write there (`archive`).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable

import google_crc32c

from bowstring import errors
from bowstring.backup.manifest import FORMAT, NAME, FileEntry, Manifest, encode
from bowstring.core.pages import LOST
from bowstring.frames import reference_of, verify
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import CATALOG, DataDirectory, sync_directory, sync_file
from bowstring.inspection.verification import read_sections
from bowstring.ports.archive import Filled
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference
from bowstring.store.segments import segment_name
from bowstring.store.spans import spans

INCOMPLETE = "incomplete"
_READ_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are copied. What it raises ends the copying."""


class Making:
    """One backup. The catalog's copy is in the target already."""

    def __init__(self, data: str, target: str, progress: Progress) -> None:
        self._target = target
        self._progress = progress
        self._directory = DataDirectory(data, catalog=os.path.join(target, CATALOG))
        self._contents = Contents(self._directory.catalog)
        self._references: dict[int, list[Reference]] = {}
        self._damaged: list[str] = []
        self._done = 0
        self._collect()

    @property
    def needed(self) -> frozenset[int]:
        return frozenset(self._references)

    def _collect(self) -> None:
        """Every reference, by segment."""
        for finding in self._contents.findings:
            self._damaged.append(f"{finding.where}: {finding.text}")
        for (topic, number), extents in self._contents.extents.items():
            for extent in extents:
                place = f"{self._contents.name(topic)}/{number}@{extent.first_offset}..{extent.end_offset - 1}"
                found: list[str] = []
                sealed = read_sections(self._directory, extent, lambda kind, error, found=found: found.append(f"{kind}: {error}"))
                self._damaged += [f"{place}: {text}" for text in found]
                self._add(sealed.places)
                if sealed.pages is None:
                    self._add_whole(segment for segment, _ in extent.uses)
                else:
                    self._add(reference_of(e) for e in sealed.pages.state() if e.segment != LOST)
        for partition in self._contents.partitions.values():
            self._add(reference_of(e) for e in partition.pages.state() if e.segment > 0)

    def _add(self, references: Iterable[Reference]) -> None:
        for reference in references:
            self._references.setdefault(reference.segment, []).append(reference)

    def _add_whole(self, segments: Iterable[int]) -> None:
        """Which pages are meant is unknown, so all of it is copied: a reference of sequence -1 is
        not verified.
        """
        for segment in segments:
            self._add([Reference(segment, 0, self._directory.size(segment) or 0, -1)])

    def fill(self) -> Filled:
        """Copies and checks."""
        total = sum(reference.length for references in self._references.values() for reference in references)
        for segment in sorted(self._references):
            self._copy(segment, sorted(self._references[segment]), total)
        sync_file(os.path.join(self._target, CATALOG))
        size = sum(os.path.getsize(os.path.join(self._target, name)) for name in self._names())
        return Filled(len(self._references), size, tuple(self._damaged))

    def _copy(self, segment: int, references: list[Reference], total: int) -> None:
        name = segment_name(segment)
        descriptor = os.open(os.path.join(self._target, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for span in spans(references):
                try:
                    data = self._directory.read(span.segment, span.position, span.length)
                except Damaged as error:
                    self._damaged.append(f"{name}: {error}")
                    continue
                for reference in span.references:
                    start = reference.position - span.position
                    self._write(descriptor, reference, data[start : start + reference.length])
                    self._done += reference.length
                self._progress(self._done, total)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, reference: Reference, data: bytes) -> None:
        try:
            if reference.sequence >= 0:
                verify(data, reference)
        except Damaged as error:
            self._damaged.append(f"{segment_name(reference.segment)}: {error}")
        written = 0
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], reference.position + written)

    def _names(self) -> list[str]:
        return [CATALOG, *(segment_name(segment) for segment in sorted(self._references))]

    def finish(self, software: str, made: str) -> None:
        """Writes the manifest: from here on it is a backup."""
        files = [FileEntry(name, *checksum(os.path.join(self._target, name))) for name in self._names()]
        contents = self._contents
        manifest = Manifest(
            format=FORMAT,
            software=software,
            made=made,
            cluster=contents.cluster.hex(),
            epoch=contents.epoch,
            sequence=max((journal.last for journal in contents.journals.values()), default=0),
            catalog_format=contents.format,
            files=files,
            damaged=self._damaged,
        )
        self.close()
        write_durably(os.path.join(self._target, NAME + ".new"), encode(manifest))
        os.unlink(os.path.join(self._target, INCOMPLETE))
        os.rename(os.path.join(self._target, NAME + ".new"), os.path.join(self._target, NAME))
        sync_directory(self._target)

    def close(self) -> None:
        self._directory.close()


# The target


def claim(target: str) -> str:
    """Makes the directory if it is missing, and puts a file there that says that a backup is being
    made. Gives the proof in it.
    """
    try:
        os.makedirs(target, mode=0o700, exist_ok=True)
        check_empty(target)
        proof = secrets.token_hex(16)
        write_durably(os.path.join(target, INCOMPLETE), json.dumps({"proof": proof}).encode())
    except OSError as error:
        raise _unusable(target, error) from error
    return proof


def check_claim(target: str, proof: str) -> None:
    """Raises unless the directory is empty but for the file of `claim`, with this proof in it."""
    try:
        with open(os.path.join(target, INCOMPLETE), "rb") as file:
            found = json.loads(file.read(1024)).get("proof")
        check_empty(target, but=INCOMPLETE)
    except FileNotFoundError:
        found = None
    except (ValueError, AttributeError):
        found = None
    except OSError as error:
        raise _unusable(target, error) from error
    if not isinstance(found, str) or not secrets.compare_digest(found.encode(), proof.encode()):
        raise errors.NotAuthorised(
            f"{target} on the broker's host has not been made ready for this backup.",
            hint="Backups are made by `bowstring backup` on the broker's own host.",
        )


def check_empty(target: str, but: str = "") -> None:
    if others := sorted(name for name in os.listdir(target) if name != but):
        raise errors.AlreadyExists(
            f"{target} is not empty: there is {others[0]} in it.",
            hint="A backup goes to a directory of its own: name a new one, with the date in it for example.",
        )


def discard(target: str) -> None:
    """Removes what an unfinished backup has left. Does nothing to a finished one, or to a directory
    that was not claimed.
    """
    if not os.path.exists(os.path.join(target, INCOMPLETE)):
        return
    for name in os.listdir(target):
        if name != INCOMPLETE:
            os.unlink(os.path.join(target, name))
    os.unlink(os.path.join(target, INCOMPLETE))


def checksum(path: str) -> tuple[int, int]:
    """Size and CRC-32C of a file."""
    size = crc = 0
    with open(path, "rb") as file:
        while block := file.read(_READ_BYTES):
            size += len(block)
            crc = google_crc32c.extend(crc, block)
    return size, crc


def write_durably(path: str, content: bytes) -> None:
    """A new file whose bytes are on the disk; its name is after `sync_directory`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _unusable(target: str, error: OSError) -> errors.Error:
    return errors.Conflict(
        f"{target} cannot be written to: {error.strerror}.", hint="Name a directory that the broker's user may write to."
    )
