"""Makes a data directory from a backup: checks every file against the manifest, and turns the
catalog into that of another cluster.

The restored data and the data that it was taken from may both go on, and give the same numbers to
different things: flushes, offsets, and segments, whose ids are made of the epoch. So two things
change. The cluster gets a new id: clients can tell the two apart. And the epoch jumps ahead by a
random distance, at least a million. Epochs count starts, so neither the original nor another
restore of the same backup gets there. So no segment that is written after a restore has the id of
one of theirs, and mixed-up files are recognised, because every frame names its segment.

The catalog comes last, and gets its name only when everything else is there: an interrupted restore
leaves a directory that no broker opens.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import google_crc32c

from bowstring import errors
from bowstring.backup import making
from bowstring.backup.manifest import NAME, FileEntry, Manifest, decode
from bowstring.catalog.sqlite import fresh
from bowstring.inspection.directory import CATALOG, sync_directory
from bowstring.store.segments import segment_name

RESTORING = CATALOG + ".restoring"
_BLOCK_BYTES = 1 << 20
# An id has 39 bits for the epoch: room for more than a hundred restores of restores.
_JUMP_MIN = 1 << 20
_JUMP_SPREAD = 1 << 32


class Restored(NamedTuple):
    """The result of a restore."""

    manifest: Manifest
    cluster: str
    epoch: int
    bytes: int


def read_manifest(backup: str) -> Manifest:
    """Raises NotFound if there is no backup, Corrupt for a damaged manifest."""
    path = os.path.join(backup, NAME)
    try:
        with open(path, "rb") as file:
            return decode(file.read(), path)
    except (FileNotFoundError, NotADirectoryError):
        unfinished = os.path.exists(os.path.join(backup, making.INCOMPLETE))
        why = "the backup in it was never finished" if unfinished else f"it has no {NAME}"
        raise errors.NotFound(f"{backup} is no backup: {why}.", hint="Name a directory that `bowstring backup` has made.") from None
    except OSError as error:
        raise errors.NotAuthorised(f"{path} cannot be read: {error.strerror}.") from error


def restore(backup: str, directory: str, *, progress: making.Progress) -> Restored:
    """Makes the directory. Raises AlreadyExists if it is not empty; leaves it as it was if anything
    fails.
    """
    manifest = read_manifest(backup)
    _check_names(manifest, backup)
    was_there = os.path.isdir(directory)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if others := sorted(os.listdir(directory)):
            raise errors.AlreadyExists(f"{directory} is not empty: there is {others[0]} in it.", hint="Restore to a new directory.")
    except OSError as error:
        raise errors.Conflict(f"{directory} cannot be written to: {error.strerror}.") from error
    try:
        total = sum(entry.bytes for entry in manifest.files)
        done = 0
        for entry in manifest.files:
            target = os.path.join(directory, RESTORING if entry.name == CATALOG else entry.name)
            done = _copy(os.path.join(backup, entry.name), target, entry, lambda at, done=done: progress(done + at, total)) + done
        jump = _JUMP_MIN + secrets.randbelow(_JUMP_SPREAD)
        cluster, epoch = fresh.begin_anew(os.path.join(directory, RESTORING), epochs=jump)
        sync_directory(directory)
        os.rename(os.path.join(directory, RESTORING), os.path.join(directory, CATALOG))
        sync_directory(directory)
    except BaseException as error:
        _remove(directory, manifest, was_there)
        if isinstance(error, OSError):
            raise errors.Unavailable(f"restoring to {directory} failed: {error.strerror}.", hint="Nothing was left there.") from error
        raise
    return Restored(manifest, cluster.hex(), epoch, done)


def _check_names(manifest: Manifest, backup: str) -> None:
    """A manifest names a catalog and segments, and nothing that would go elsewhere."""
    names = [entry.name for entry in manifest.files]
    wrong = [name for name in names if name != CATALOG and not _is_segment(name)]
    if wrong or names.count(CATALOG) != 1 or len(set(names)) != len(names):
        raise errors.Corrupt(f"the manifest of {backup} does not name a catalog and segments.")


def _is_segment(name: str) -> bool:
    try:
        return name == segment_name(int(name.removeprefix("segment-"), 16))
    except ValueError:
        return False


def _copy(source: str, target: str, entry: FileEntry, told: Callable[[int], None]) -> int:
    """Copies a file and checks it on the way; holes stay holes."""
    size = crc = 0
    try:
        file = open(source, "rb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise errors.Corrupt(f"the backup is damaged: {source} cannot be read ({error.strerror}).", hint="Use another backup.") from error
    with file, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as copy:
        while block := file.read(_BLOCK_BYTES):
            crc = google_crc32c.extend(crc, block)
            size += len(block)
            if any(block):
                copy.write(block)
            else:
                copy.seek(len(block), os.SEEK_CUR)
            told(size)
        copy.truncate(size)
        copy.flush()
        os.fsync(copy.fileno())
    if (size, crc) != (entry.bytes, entry.crc32c):
        why = f"{size} bytes instead of {entry.bytes}" if size != entry.bytes else "its checksum is not the one in the manifest"
        raise errors.Corrupt(f"the backup is damaged: {source} ({why}).", hint="Nothing was restored. Use another backup.")
    return size


def _remove(directory: str, manifest: Manifest, was_there: bool) -> None:
    """Removes everything of a failed restore."""
    for name in (RESTORING, RESTORING + "-wal", RESTORING + "-shm", CATALOG, *(entry.name for entry in manifest.files)):
        with suppress(OSError):
            os.unlink(os.path.join(directory, name))
    if not was_there:
        with suppress(OSError):
            os.rmdir(directory)
