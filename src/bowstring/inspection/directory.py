"""A data directory as files, read-only and locked, so that no broker can change it meanwhile."""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Final, Self

from bowstring import errors
from bowstring.catalog.sqlite.offline import CatalogReading
from bowstring.host.disk import sync_directory as sync_directory
from bowstring.host.disk import sync_file as sync_file
from bowstring.host.lock import DirectoryLock
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference
from bowstring.store.segments import Inventory, segment_name, take_stock

CATALOG: Final = "catalog.sqlite"
_ANY_EPOCH: Final = 1 << 62
_HANDLES_MAX: Final = 64


class DataDirectory:
    """The files of one directory. Raises Conflict with the address of the broker that serves it, if
    one does.
    """

    def __init__(self, path: str, *, catalog: str | None = None) -> None:
        """With `catalog`, a copy of the directory's own catalog, a broker may serve the directory,
        and it is not locked.
        """
        self.path = os.path.abspath(path)
        self._descriptors: dict[int, int] = {}
        self._lock = DirectoryLock(self.path)
        if not os.path.isdir(self.path):
            raise errors.NotFound(f"there is no directory {self.path}.", hint="Name the data directory of a broker.")
        try:
            self.sizes = _sizes(self.path)
            if CATALOG not in self.sizes:
                raise _no_catalog(self.path, self.sizes)
            if catalog is None:
                self._lock.take_to_look()
            self.catalog = CatalogReading(catalog or os.path.join(self.path, CATALOG))
        except OSError as error:
            raise errors.NotAuthorised(f"{self.path} cannot be read: {error.strerror}.", hint="Is it yours?") from error
        except BaseException:
            self._lock.drop()
            raise

    def inventory(self) -> Inventory:
        """The segments, free files and orphans of the directory; none counts as live."""
        return take_stock(self.sizes, _ANY_EPOCH, ())

    def size(self, segment: int) -> int | None:
        """The size of a segment's file; None if there is none."""
        return self.sizes.get(segment_name(segment))

    def read(self, segment: int, position: int, length: int) -> bytes:
        """Bytes of a segment, fewer than asked for at its end. Raises Damaged if the file is
        missing or cannot be read.
        """
        try:
            return os.pread(self._descriptor(segment), length, position)
        except OSError as error:
            why = f"{segment_name(segment)} is missing" if error.errno == errno.ENOENT else str(error)
            raise Damaged(f"segment {segment:#x} cannot be read at {position}: {why}") from error

    def frame(self, reference: Reference) -> bytes:
        return self.read(reference.segment, reference.position, reference.length)

    def _descriptor(self, segment: int) -> int:
        if segment not in self._descriptors:
            if len(self._descriptors) >= _HANDLES_MAX:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            self._descriptors[segment] = os.open(os.path.join(self.path, segment_name(segment)), os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptors[segment]

    def close(self) -> None:
        self.catalog.close()
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        self._lock.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _sizes(path: str) -> dict[str, int]:
    with os.scandir(path) as entries:
        return {entry.name: entry.stat().st_size for entry in sorted(entries, key=lambda entry: entry.name) if entry.is_file()}


def _no_catalog(path: str, sizes: dict[str, int]) -> errors.Error:
    segments = sum(name.startswith("segment-") for name in sizes)
    if segments:
        return errors.Corrupt(
            f"{path} has {segments} segments but no {CATALOG}, without which their contents are unknown.",
            hint=f"Put {CATALOG} back, or restore a backup.",
        )
    return errors.NotFound(f"{path} is not a data directory: there is no {CATALOG} in it.", hint="Name the data directory of a broker.")
