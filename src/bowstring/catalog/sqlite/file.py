"""A SQLite file, opened so that what it calls committed is committed.

The order of the settings matters. WAL with `synchronous=FULL` alone loses commits: the switch to
WAL is itself a transaction in the old journal mode, whose end is the unlinking of the rollback
journal, and as long as that unlinking is not in the directory on the disk, a power cut brings the
old journal back, which then undoes the switch and everything behind it. With `EXTRA` SQLite syncs
the directory after the unlinking. Then the catalog syncs the directory once more, because the WAL
file is a new name, too. Only after that does it write anything that leaves the broker. The settings
are read back: SQLite does not complain about a pragma that it did not follow, and a catalog that
runs without them would silently lose data at the next power cut.

`locking_mode=EXCLUSIVE` comes before the first access. It keeps other processes out, and SQLite
then keeps the WAL's index on its heap instead of in shared memory, which a VFS written in Python
does not have. The WAL is checkpointed by the catalog, not by SQLite. One that an earlier process
has left is written anew before anything is read from it (`wal`).

A page is 512 bytes, not the usual 4 KiB: a flush writes whole pages to the WAL, its row and the one
above it, those that overflow, and often the file's first one (docs/decisions/0015). A file that was
made with larger pages keeps them.

The format of the file is its `user_version`, the number of the last migration, and `application_id`
says that it is ours. Both are looked at before anything is changed: another program's database, or
one of a later Bowstring, is left exactly as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import apsw

from bowstring.catalog.sqlite import upgrade, wal
from bowstring.catalog.sqlite.queries import migrations
from bowstring.errors import Conflict, Corrupt, Error, NotSupported
from bowstring.ports.failures import DiskFull, StorageFailed

MEMORY = ":memory:"
APPLICATION_ID = 0x426F7773  # "Bows"
PAGE_BYTES = 512


def connect(path: str, *, vfs: str | None = None, sync_directory: Callable[[], None] | None = None) -> apsw.Connection:
    """Opens or makes the file, checks that it is a catalog of this format or an older one, and
    brings it up to this one.

    `sync_directory` makes the names beside the file durable; without one the directory on the real
    disk is synced.
    """
    connection: apsw.Connection | None = None
    try:
        with _opening(path):
            connection = _opened(path, vfs)
            if wal.write_anew(connection, vfs):
                abandon(connection)
                connection = _opened(path, vfs)
            _settle(connection, path, sync_directory)
            _migrate(connection)
            if path != MEMORY:
                _fold_in(connection)
    except Exception:
        if connection is not None:
            abandon(connection)
        raise
    return connection


def connect_to_look(path: str) -> apsw.Connection:
    """Opens the file and its WAL without changing anything in the directory: for a directory that
    no broker serves, which may be read-only. Raises Corrupt if it is not a catalog, and the errors
    of `connect` for another application's or a later format.

    A WAL cannot be read without an index of it, which SQLite keeps in a file; with exclusive
    locking it keeps it on its heap. That takes a lock which a file that is open for reading only
    does not give, hence the VFS without locks: the directory's own lock keeps others out. Without a
    WAL the file is `immutable`, because SQLite would else make an empty one.
    """
    from urllib.parse import quote  # which takes 10 ms to import, and only `inspect` and backups come here

    connection: apsw.Connection | None = None
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        has_wal = os.path.exists(path + "-wal") and os.path.getsize(path + "-wal") > 0
        uri = f"file:{quote(os.path.abspath(path))}?" + ("mode=ro" if has_wal else "immutable=1")
        connection = apsw.Connection(uri, flags=flags, vfs="unix-none")
        connection.pragma("locking_mode", "EXCLUSIVE")
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        _refuse_strangers(connection, path)
        if not connection.pragma("user_version"):
            raise Corrupt(f"{path} is empty: there is no catalog in it.", hint="It was left as it is.")
    except (Error, apsw.Error, OSError) as error:
        if connection is not None:
            abandon(connection)
        if isinstance(error, Error):
            raise
        raise Corrupt(f"{path} cannot be read ({error}).", hint="It was left as it is.") from error
    return connection


@contextmanager
def transaction(connection: apsw.Connection) -> Generator[None]:
    """A transaction. The caller handles SQLite's errors, also those of the commit."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except Exception:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Ends the transaction if there still is one: after a full disk SQLite has sometimes ended it
    by itself.
    """
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def close(connection: apsw.Connection) -> None:
    """Closes, with a last checkpoint. If that fails nothing is lost: the WAL stays, and is read at
    the next start.
    """
    with suppress(apsw.Error):
        connection.close()
    connection.close(True)


def abandon(connection: apsw.Connection) -> None:
    """Closes without the checkpoint that SQLite would make: after a failure nothing more is written
    to the file.
    """
    with suppress(apsw.Error):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)


def _opened(path: str, vfs: str | None) -> apsw.Connection:
    """The file, if it is ours and not in use, with a lock that keeps others out until it is closed."""
    connection = apsw.Connection(path, vfs=vfs)
    try:
        connection.pragma("locking_mode", "EXCLUSIVE")
        _refuse_strangers(connection, path)
    except Exception:
        abandon(connection)
        raise
    return connection


def _settle(connection: apsw.Connection, path: str, sync_directory: Callable[[], None] | None) -> None:
    """The settings, in the order that the text at the top explains."""
    connection.pragma("temp_store", "MEMORY")
    connection.pragma("page_size", PAGE_BYTES)
    if path == MEMORY:
        return
    connection.pragma("synchronous", "EXTRA")
    connection.pragma("journal_mode", "WAL")
    connection.pragma("schema_version")  # a read, so that the WAL file is there before the directory is synced
    if sync_directory is None:
        _sync_directory_of(connection.filename)
    else:
        sync_directory()
    connection.pragma("synchronous", "FULL")
    connection.wal_autocheckpoint(0)
    wanted = {"locking_mode": "exclusive", "journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0}
    found = {name: connection.pragma(name) for name in wanted}
    if found != wanted:
        raise StorageFailed(f"SQLite did not take the settings that make commits durable at {path}: {found}, not {wanted}")


def _refuse_strangers(connection: apsw.Connection, path: str) -> None:
    """Accepts a file that is empty, or ours and not newer than this software."""
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application == 0 and version == 0 and connection.pragma("schema_version") == 0:
        return
    if application != APPLICATION_ID:
        raise Conflict(f"{path} is the database of another application.", hint="Name a data directory that is empty or a broker's.")
    known = len(migrations())
    if version > known:
        raise NotSupported(
            f"{path} has catalog format {version}; this software reads the formats up to {known}.",
            hint="Use the version of Bowstring that wrote it, or a later one.",
            details={"format": str(version), "format_max": str(known)},
        )


def _migrate(connection: apsw.Connection) -> None:
    """Runs the migrations that this file has not seen, each with its number in one transaction."""
    version: int = connection.pragma("user_version")
    if version < len(migrations()):
        upgrade.add_functions(connection)
    for migration in migrations()[version:]:
        with transaction(connection):
            connection.execute(migration.script)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", migration.number)


def _fold_in(connection: apsw.Connection) -> None:
    """Checkpoints the WAL of an earlier incarnation, so that repeated crashes do not make it grow.

    It is needed for safety too: a checkpoint whose sync failed has left pages of the database that
    only the cache has. The WAL still has all of them, and is durable (`wal`); folding it in writes
    them anew. So a disk with no room for that does not open.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _sync_directory_of(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _opening(path: str) -> Generator[None]:
    """The errors of opening, shaped by what the caller can do about them."""
    try:
        yield
    except (Error, StorageFailed):
        raise
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Conflict(f"{path} is in use by another process.", hint="Stop that one, or connect to it.") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise Corrupt(f"{path} is no SQLite database, or a damaged one ({error}).", hint="It was left as it is.") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise Conflict(f"{path} cannot be opened for writing ({error}).", hint="Is the directory there, and writable?") from error
    except apsw.FullError as error:
        raise DiskFull(f"there is no room to open {path}") from error
    except Exception as error:
        raise StorageFailed(f"opening {path} failed: {error}") from error
