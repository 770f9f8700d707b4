"""SQLite's files on the simulated disk: the real SQLite, through a VFS of apsw.

It does what SQLite's own VFS for Unix does, in particular with names: the directory is synced when a journal or WAL that was opened with
"create" is synced for the first time, and when SQLite deletes a file and asks for it; the database's own name is durable only after
somebody syncs the directory (`SimulatedDisk.sync_directory_now`). For the WAL an option takes that away, which is stricter than Linux:
it is what R11 guards against. There is no shared memory, so WAL wants `locking_mode=EXCLUSIVE`.

A power cut inside one of these calls cannot raise through SQLite's C code. It becomes an I/O error there; by then the incarnation is dead,
whatever SQLite or the product still try has no effect, and the worker never resumes who called. Closing a dead connection writes nothing.
"""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING

import apsw

from tests.simulation.loop import PowerCut
from tests.simulation.medium import Inode

if TYPE_CHECKING:
    from tests.simulation.disk import SimulatedDisk

SECTOR_BYTES = 4096
JULIAN_MILLISECONDS = 210_866_760_000_000
SYNCS_ITS_NAME = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

_numbers = itertools.count(1)


def failure(error: BaseException, code: int) -> apsw.Error:
    """An error of the disk as SQLite knows it."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return apsw.FullError("the disk is full")
    raised = apsw.IOError("the power is gone" if isinstance(error, PowerCut) else str(error))
    raised.extendedresult = code
    return raised


class SimulatedVFS(apsw.VFS):
    """One incarnation's way to its disk. The name is unique in the process, because SQLite knows VFSs by name."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.name = f"simulated-{next(_numbers)}"
        self._disk = disk
        super().__init__(self.name, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> SimulatedSqliteFile:
        disk, wanted = self._disk, flags[0]
        flags[1] = wanted
        if name is None:
            return SimulatedSqliteFile(disk, "", Inode(0), False)
        base = _base(name if isinstance(name, str) else name.filename())
        creates = bool(wanted & apsw.SQLITE_OPEN_CREATE)
        try:
            disk.check_alive()
            inode = disk.medium.names.get(base)
            if inode is None and creates:
                inode = disk.create_now(base)
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_ACCESS) from None
        if inode is None:
            raise apsw.CantOpenError(f"there is no {base}")
        syncs_its_name = SYNCS_ITS_NAME if disk.options.wal_syncs_its_name else SYNCS_ITS_NAME & ~apsw.SQLITE_OPEN_WAL
        return SimulatedSqliteFile(disk, base, inode, creates and bool(wanted & syncs_its_name))

    def xDelete(self, name: str, syncdir: bool) -> None:
        base = _base(name)
        try:
            self._disk.check_alive()
            if base not in self._disk.medium.names:
                raise FileNotFoundError(errno.ENOENT, "no such file", base)
            self._disk.unlink(base)
        except FileNotFoundError as error:
            raise failure(error, apsw.SQLITE_IOERR_DELETE_NOENT) from None
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_DELETE) from None
        if syncdir:
            try:
                self._disk.sync_directory_now()
            except (OSError, PowerCut) as error:
                raise failure(error, apsw.SQLITE_IOERR_DIR_FSYNC) from None

    def xAccess(self, pathname: str, flags: int) -> bool:
        inode = self._disk.medium.names.get(_base(pathname))
        return inode is not None and (flags != apsw.SQLITE_ACCESS_EXISTS or len(inode.data) > 0)

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return self._disk.drive.random.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        self._disk.debt += microseconds / 1e6
        return microseconds

    def xCurrentTime(self) -> float:
        return self.xCurrentTimeInt64() / 86_400_000

    def xCurrentTimeInt64(self) -> int:
        return self._disk.life.clock.now() // 1000 + JULIAN_MILLISECONDS

    def xGetLastError(self) -> tuple[int, str]:
        return 0, ""


class SimulatedSqliteFile:
    """An open file of SQLite. One without a name is temporary: it lies in memory and knows no faults."""

    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode, sync_name: bool) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._sync_name = sync_name
        self.level = apsw.SQLITE_LOCK_NONE
        inode.openers.append(self)

    @property
    def dead(self) -> bool:
        return self._disk.life.dead

    def xRead(self, amount: int, offset: int) -> bytes:
        if not self._name:
            return bytes(self._inode.data[offset : offset + amount])
        try:
            return self._disk.read_now(self._inode, self._name, offset, amount)
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_READ) from None

    def xWrite(self, data: bytes, offset: int) -> None:
        if not self._name:
            return self._inode.write(offset, bytes(data))
        try:
            self._disk.write_now(self._inode, self._name, offset, bytes(data))
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_WRITE) from None

    def xTruncate(self, newsize: int) -> None:
        if not self._name:
            return self._inode.resize(newsize)
        try:
            self._disk.resize_now(self._inode, self._name, newsize)
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_TRUNCATE) from None

    def xSync(self, flags: int) -> None:
        if not self._name:
            return
        try:
            self._disk.debt += self._disk.drive.seconds(1.0)
            self._disk.sync_now(self._inode, self._name, self._inode.serial)
            if self._sync_name:
                self._disk.sync_directory_now()
                self._sync_name = False
        except (OSError, PowerCut) as error:
            raise failure(error, apsw.SQLITE_IOERR_FSYNC) from None

    def xFileSize(self) -> int:
        if self.dead:
            raise failure(PowerCut(), apsw.SQLITE_IOERR_FSTAT)
        return len(self._inode.data)

    # Locks are of the machine's system: those of a dead process are gone.

    def xLock(self, level: int) -> None:
        others = [file.level for file in self._inode.openers if file is not self and not file.dead]  # type: ignore[attr-defined]
        highest = max(others, default=apsw.SQLITE_LOCK_NONE)
        allowed = {
            apsw.SQLITE_LOCK_SHARED: apsw.SQLITE_LOCK_RESERVED,
            apsw.SQLITE_LOCK_RESERVED: apsw.SQLITE_LOCK_SHARED,
            apsw.SQLITE_LOCK_EXCLUSIVE: apsw.SQLITE_LOCK_NONE,
        }
        if highest > allowed.get(level, apsw.SQLITE_LOCK_EXCLUSIVE):
            raise apsw.BusyError("another connection holds a lock")
        self.level = max(self.level, level)

    def xUnlock(self, level: int) -> None:
        self.level = min(self.level, level)

    def xCheckReservedLock(self) -> bool:
        return any(file.level >= apsw.SQLITE_LOCK_RESERVED for file in self._inode.openers if not file.dead)  # type: ignore[attr-defined]

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:
        self.level = apsw.SQLITE_LOCK_NONE
        self._inode.openers.remove(self)


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def seed_randomness(source: bytes) -> None:
    """SQLite draws salts from a generator of its own, one for the process, which it seeds from the default VFS: once, here, by us.
    Backups open real files, and the first of those in a process that was forked would make it forget: that one is opened here."""
    apsw.Connection("/dev/null", flags=apsw.SQLITE_OPEN_READONLY).close()
    before = apsw.vfs_names()[0]
    seeder = _Seeder(source)
    apsw.set_default_vfs(seeder.name)
    try:
        apsw.randomness(0)  # forgets the state
        apsw.randomness(1)  # seeds it anew
    finally:
        apsw.set_default_vfs(before)
        seeder.unregister()


class _Seeder(apsw.VFS):
    def __init__(self, source: bytes) -> None:
        self.name = f"seeder-{next(_numbers)}"
        self._source = source
        super().__init__(self.name, base="unix")

    def xRandomness(self, numbytes: int) -> bytes:
        return (self._source * (numbytes // len(self._source) + 1))[:numbytes]
