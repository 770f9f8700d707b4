"""Who serves a data directory: the process that holds the lock on the file `lock` in it.

The lock is the kernel's (flock) and ends with the process, however that ends, so there is nothing
to clean up after a crash. The file says in JSON who holds it, `{"pid": …, "address": …}`, for
processes that come second. The holder writes it right after it takes the lock, and the file stays
behind when the process is killed. So a second process that finds an empty file, or a pid that does
not exist, looks again. The file is never truncated: on a full disk its one block is there already.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import weakref
from contextlib import suppress
from typing import NamedTuple

from bowstring import errors

NAME = "lock"
_LOOKS = 20
_LOOK_SECONDS = 0.01
_CONTENT_BYTES = 1024


class Holder(NamedTuple):
    pid: int
    address: str
    embedded: bool = False
    """Whether the holder is an embedded broker; another embedded broker may take its place when it
    ends.
    """


class DirectoryLock:
    """The lock of one directory, taken or not."""

    def __init__(self, directory: str, *, embedded: bool = False) -> None:
        self._directory = directory
        self._embedded = embedded
        self._descriptor: int | None = None

    def take(self, address: str) -> None:
        """Takes the lock, or raises Conflict with the holder's address. Raises OSError if the file
        cannot be made.
        """
        descriptor = os.open(os.path.join(self._directory, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        holder = Holder(os.getpid(), address, self._embedded)
        self._hold(descriptor, fcntl.LOCK_EX, json.dumps(holder._asdict()))

    def take_to_look(self) -> None:
        """Takes a shared lock: no broker can serve the directory while someone inspects it, and
        several may inspect. Changes nothing: where there is no lock file, in a copy for example,
        there is nothing to lock. Raises Conflict with the holder's address.
        """
        try:
            descriptor = os.open(os.path.join(self._directory, NAME), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        self._hold(descriptor, fcntl.LOCK_SH, None)

    def _hold(self, descriptor: int, kind: int, text: str | None) -> None:
        """Locks the open file, and writes the holder into it if there is one."""
        try:
            holder = _lock(descriptor, kind)
            if holder is not None:
                raise self._conflict(holder)
            if text is not None:
                _write(descriptor, text)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _taken.add(self)

    def give_back(self) -> None:
        """Releases the lock. Does nothing if this process does not hold it."""
        if self._descriptor is not None:
            with suppress(OSError):  # the file's contents are only for people
                _write(self._descriptor, "")
            self.drop()

    def drop(self) -> None:
        """Closes the file. In a child that was forked this leaves the parent's lock as it is."""
        descriptor, self._descriptor = self._descriptor, None
        _taken.discard(self)
        if descriptor is not None:
            os.close(descriptor)

    def _conflict(self, holder: Holder) -> errors.Conflict:
        known = holder != _NOBODY
        whom = (
            f"{holder.address} (pid {holder.pid})"
            if known
            else "another process, which does not say who it is, or looked at by bowstring inspect"
        )
        embedded = {"embedded": "yes"} if holder.embedded else {}
        return errors.Conflict(
            f"the data directory {self._directory} is served by {whom}.",
            hint="Connect to that one, end it first, or use another directory.",
            details={"address": holder.address, "pid": str(holder.pid), **embedded} if known else None,
        )


def is_served(directory: str) -> bool:
    """Whether a process holds the lock of a directory at this moment. A directory that has vanished
    counts as held, because no one can take it.
    """
    try:
        descriptor = os.open(os.path.join(directory, NAME), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


_NOBODY = Holder(0, "")
_taken: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A forked child shares the lock, and would hold on to it when the parent has ended."""
    for lock in list(_taken):
        lock.drop()


os.register_at_fork(after_in_child=_forget_in_child)


def _write(descriptor: int, content: str) -> None:
    os.pwrite(descriptor, content.encode().ljust(_CONTENT_BYTES), 0)


def _lock(descriptor: int, kind: int) -> Holder | None:
    """Locks, or returns the holder that the file names. Waits for holders that only looked for a
    moment.
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK:
                raise
        else:
            return None
        holder = _parse(os.pread(descriptor, _CONTENT_BYTES, 0))
        if holder is not None and _is_alive(holder.pid):
            return holder
        time.sleep(_LOOK_SECONDS)
    return _NOBODY


def _parse(content: bytes) -> Holder | None:
    try:
        found = json.loads(content)
        return Holder(int(found["pid"]), str(found["address"]), bool(found.get("embedded")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
