"""The disk as a process sees it: `ports.disk.Disk`, with all the faults of a disk.

A `Drive` is the hardware of one machine: a medium, and its ways to fail. A `SimulatedDisk` is the
same drive as one incarnation has it mounted; when that incarnation is dead, nothing it still does
has an effect, and nothing it waits for ever comes. The power can go, or the process be killed, at
any operation: inside a write, in the middle of a sync, between two steps of a SQLite commit
(`vfs`). All operations are plain functions that end the caller's life by raising `PowerCut`; what
the port calls asynchronous happens at a later moment, as in a thread: a caller that was cancelled
does not stop it.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bowstring import errors
from bowstring.ports.disk import Buffer
from tests.simulation.digest import checksum
from tests.simulation.loop import PowerCut
from tests.simulation.medium import UNLIMITED, Inode, Medium
from tests.simulation.vfs import SimulatedVFS

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

T = TypeVar("T")

POWER = "power-cut"
CRASH = "crash"
LOCK = "lock"


class Drive:
    """The hardware. `operations` counts everything that was asked of it; `armed` is what strikes
    after that many more, or after that many more that are not reads.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._capacity = world.options.disk_bytes or UNLIMITED
        self.medium = Medium(world.source(f"{name}/lottery"), reorder=world.options.reorder, capacity=self._capacity)
        self.random: random.Random = world.source(f"{name}/drive")
        self.operations = 0
        self.tenants: list[Incarnation] = []
        self.holder: tuple[Incarnation, str] | None = None
        self._armed: tuple[str, int, bool] | None = None
        self.sync_failed = False
        """A sync has failed, and no process has started since: the next one may read bytes that
        only the cache has.
        """
        self._full_was_felt = False
        self.quiet = False
        """An inspection from outside of the world is under way."""
        self._slow: list[tuple[asyncio.TimerHandle, Callable[[], None], Context | None]] = []
        """Operations that take long, and their ends."""

    def arm(self, kind: str, operations: int, *, reads: bool = True) -> None:
        """Lets the power go, or the process be killed, inside the n-th operation from now; reads
        count as operations, or not.
        """
        self._armed = (kind, operations, reads)

    def disarm(self) -> None:
        self._armed = None

    @property
    def armed(self) -> bool:
        return self._armed is not None

    def strike(self, *, reads: bool = False) -> str | None:
        """Counts an operation, and says what strikes in the middle of it."""
        self.operations += 1
        if self._armed is None or (reads and not self._armed[2]):
            return None
        kind, left, counted = self._armed
        self._armed = (kind, left - 1, counted) if left > 1 else None
        return None if left > 1 else kind

    def fails(self, rate: float) -> bool:
        return rate > 0.0 and self.world.faulty and not self.quiet and self.random.random() < rate

    def seconds(self, share: float) -> float:
        """How long an operation takes that costs a share of a sync."""
        options = self.world.options
        if self.fails(options.slow_rate):
            self.world.sometimes("slow disk operation")
            return self.random.expovariate(1.0 / options.slow_seconds)
        return options.sync_seconds * share * (0.5 + self.random.random())

    def later(self, seconds: float, end: Callable[[], None], context: Context | None) -> None:
        """Ends an operation when that much time has passed, or when the world has healed."""
        loop = self.world.loop
        timer = loop.call_later(seconds, end, context=context)
        if seconds > 2 * self.world.options.sync_seconds:
            under_way = [slow for slow in self._slow if slow[0].when() > loop.time()]
            self._slow = [*under_way, (timer, end, context)]

    def hurry(self) -> None:
        """The disk is quick again, also with the operations that are under way."""
        loop = self.world.loop
        for timer, end, context in self._slow:
            if timer.when() > loop.time():
                timer.cancel()
                loop.call_at(min(timer.when(), loop.time() + self.seconds(1.0)), end, context=context)
        self._slow.clear()

    def squeeze(self, left: int) -> None:
        """Leaves that many bytes free: others have filled the disk. What is given up from then on
        is free again.
        """
        self.medium.capacity = min(self._capacity, self.medium.used + left)
        self._full_was_felt = False

    def relax(self) -> None:
        """Others have made room."""
        self.medium.capacity = self._capacity

    def go_dark(self) -> bool:
        """The power is gone. Returns whether that has harmed what was not synced."""
        effects = self.medium.cut()
        self.world.digest.note(f"{self.name} lost {sorted(effects.items())}")
        for effect, times in sorted(effects.items()):
            self.world.sometimes(effect, times)
        return bool(effects)

    def full(self) -> OSError:
        """The error of a full disk; the first one after a squeeze counts as a fault."""
        if not self._full_was_felt:
            self._full_was_felt = True
            self.world.fault("no-space", self.name)
        return OSError(errno.ENOSPC, "no space left on the device")


class SimulatedDisk:
    """A drive as one incarnation has it. `debt` is the time that calls on a worker have cost: the
    worker waits for it afterwards.
    """

    def __init__(self, drive: Drive, life: Incarnation) -> None:
        self.drive = drive
        self.medium = drive.medium
        self.life = life
        self.world = drive.world
        self.options = drive.world.options
        self.debt = 0.0
        self._vfs: SimulatedVFS | None = None
        drive.tenants = [*(tenant for tenant in drive.tenants if not tenant.dead), life]

    @property
    def vfs(self) -> str:
        """The name under which SQLite finds this disk."""
        if self._vfs is None:
            self._vfs = SimulatedVFS(self)
        return self._vfs.name

    # ---- the port --------------------------------------------------------------------------------------------------

    def lock(self, address: str) -> None:
        self.check_alive()
        if self.drive.holder is not None:
            life, theirs = self.drive.holder
            if not life.dead:
                raise errors.Conflict(f"The data directory is in use by the broker at {theirs}.", details={"address": theirs})
        if LOCK not in self.medium.names:
            self.create_now(LOCK)
        self.drive.holder = (self.life, address)

    def unlock(self) -> None:
        self.check_alive()
        if self.drive.holder is not None and self.drive.holder[0] is self.life:
            self.drive.holder = None

    def names(self) -> list[str]:
        self.check_alive()
        return sorted(self.medium.names)

    async def create(self, name: str, size: int) -> SimulatedFile:
        return await self._in_thread(1.0, partial(self._create_whole, name, size))

    async def open(self, name: str) -> SimulatedFile:
        return await self._in_thread(0.1, lambda: SimulatedFile(self, name, self.medium.inode(name)))

    async def size(self, name: str) -> int:
        return await self._in_thread(0.1, lambda: len(self.medium.inode(name).data))

    def rename(self, old: str, new: str) -> None:
        strike = self._step(f"rename {old} {new}")
        self.medium.inode(old)
        self._change_names(strike, partial(self.medium.rename, old, new))

    def unlink(self, name: str) -> None:
        strike = self._step(f"unlink {name}")
        self.medium.inode(name)
        self._change_names(strike, partial(self.medium.unlink, name))

    async def sync_directory(self) -> None:
        await self._in_thread(1.0, partial(self._sync_names, self.medium.names_serial))

    def sync_directory_now(self) -> None:
        """The same for calls on a worker, which may block."""
        self.debt += self.drive.seconds(1.0)
        self._sync_names(self.medium.names_serial)

    # ---- operations, in the form that SQLite's VFS uses too ----------------------------------------------------------

    def check_alive(self) -> None:
        if self.life.dead:
            raise PowerCut(f"{self.life.name} is dead")

    def create_now(self, name: str) -> Inode:
        """A new, empty file."""
        strike = self._step(f"create {name}")
        self._change_names(strike, partial(self.medium.create, name))
        return self.medium.inode(name)

    def write_now(self, inode: Inode, name: str, position: int, data: bytes) -> None:
        strike = self._step(f"write {name} {position} {len(data)} {checksum(data)}")
        end = position + len(data)
        if strike is not None:
            if strike == CRASH and self.drive.random.random() < 0.6:
                self._write_in_part(inode, position, data, len(data))
            elif not self.medium.make_room(inode, max(end, len(inode.data))):
                inode.write(position, data)
            self._die(strike)
        if self.drive.fails(self.options.write_error_rate):
            self._write_in_part(inode, position, data, len(data))
            self.world.fault("write-error", self.life.name)
            raise OSError(errno.EIO, "write failed", name)
        if end > len(inode.data) and (missing := self.medium.make_room(inode, end)):
            self._write_in_part(inode, position, data, len(data) - missing)
            raise self.drive.full()
        inode.write(position, data)

    def _write_in_part(self, inode: Inode, position: int, data: bytes, fitting: int) -> None:
        """The bytes that a failed write leaves behind: none, or as many as fit."""
        part = int(self.drive.random.random() * (fitting + 1)) if fitting > 0 and self.drive.random.random() < 0.5 else 0
        if part and not self.medium.make_room(inode, max(len(inode.data), position + part)):
            inode.write(position, data[:part])

    def resize_now(self, inode: Inode, name: str, size: int) -> None:
        strike = self._step(f"resize {name} {size}")
        missing = self.medium.make_room(inode, size)
        if not missing:
            inode.resize(size)
        if strike is not None:
            self._die(strike)
        if missing:
            raise self.drive.full()

    def sync_now(self, inode: Inode, name: str, serial: int) -> None:
        """Makes the changes up to `serial` durable. A power cut in the middle leaves what the
        lottery leaves.
        """
        strike = self._step(f"sync {name} {serial}")
        if strike is not None:
            if strike == CRASH and self.drive.random.random() < 0.5:
                inode.synced(serial)
            self._die(strike)
        if self.drive.fails(self.options.sync_error_rate):
            inode.sync_failed(serial, self.medium.lottery())
            self.drive.sync_failed = True
            self.world.fault("sync-error", self.life.name)
            raise OSError(errno.EIO, "sync failed", name)
        inode.synced(serial)

    def read_now(self, inode: Inode, name: str, position: int, length: int) -> bytes:
        data = bytes(inode.data[position : position + length])
        strike = self._step(f"read {name} {position} {length} {checksum(data)}")
        if strike is not None:
            self._die(strike)
        if self.drive.fails(self.options.read_error_rate):
            self.world.fault("read-error", self.life.name)
            raise OSError(errno.EIO, "read failed", name)
        return data

    def _read_page(self, inode: Inode, name: str, position: int, length: int) -> bytes:
        """A read of a segment, which the disk may answer with a flipped bit: this once, or from now
        on.
        """
        data = self.read_now(inode, name, position, length)
        if data and self.drive.fails(self.options.bit_rot_rate):
            at, bit = int(self.drive.random.random() * len(data)), 1 << int(self.drive.random.random() * 8)
            if inode.rot(position + at, bit):
                self.world.fault("bit-rot", f"{name} {position + at} {bit}")
            data = bytes(inode.data[position : position + length])
        elif data and self.drive.fails(self.options.bit_flip_rate):
            at, bit = int(self.drive.random.random() * len(data)), 1 << int(self.drive.random.random() * 8)
            data = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            self.world.fault("bit-flip", f"{name} {position + at} {bit}")
        return data

    def _create_whole(self, name: str, size: int) -> SimulatedFile:
        inode = self.create_now(name)
        try:
            self.resize_now(inode, name, size)
            self.sync_now(inode, name, inode.serial)
        except OSError:
            self.unlink(name)
            raise
        return SimulatedFile(self, name, inode)

    def _sync_names(self, serial: int) -> None:
        strike = self._step(f"sync-directory {serial}")
        if strike is not None:
            if strike == CRASH and self.drive.random.random() < 0.5:
                self.medium.names_synced(serial)
            self._die(strike)
        if self.drive.fails(self.options.sync_error_rate):
            self.world.fault("sync-error", self.life.name)
            raise OSError(errno.EIO, "sync of the directory failed")
        self.medium.names_synced(serial)

    # ---- how an operation ends -------------------------------------------------------------------------------------

    def _step(self, what: str) -> str | None:
        """Every operation begins here: the dead get no further, all is noted, and something may
        strike.
        """
        self.check_alive()
        if self.drive.quiet:
            return None
        self.world.digest.note(f"{self.life.name} {what}")
        return self.drive.strike(reads=what.startswith("read "))

    def _change_names(self, strike: str | None, change: Callable[[], object]) -> None:
        if strike is None or strike == POWER or self.drive.random.random() < 0.5:
            change()
        if strike is not None:
            self._die(strike)

    def _die(self, strike: str) -> None:
        self.world.sometimes(f"{strike} inside a disk operation")
        self.life.kill(strike)
        raise PowerCut(f"{self.life.name}: {strike}")

    def _in_thread(self, share: float, effect: Callable[[], T]) -> asyncio.Future[T]:
        """Does it a little later, whether or not the caller still waits then."""
        self.check_alive()
        future: asyncio.Future[T] = self.world.loop.create_future()
        self.life.under_way += 1
        self.drive.later(self.drive.seconds(share), partial(self._finish, future, effect), self.life.context)
        return future

    def _finish(self, future: asyncio.Future[T], effect: Callable[[], T]) -> None:
        self.life.under_way -= 1
        try:
            result = effect()
        except PowerCut:
            self.world.loop.graveyard.append(future)
        except (OSError, errors.Error) as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)


class SimulatedFile:
    """An open file."""

    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode) -> None:
        self.name = name
        self._disk = disk
        self._inode = inode
        self._closed = False

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        self._check_open()
        self._disk.write_now(self._inode, self.name, position, b"".join(buffers))

    async def sync(self) -> None:
        self._check_open()
        await self._disk._in_thread(1.0, partial(self._disk.sync_now, self._inode, self.name, self._inode.serial))

    async def read(self, position: int, length: int) -> bytes:
        self._check_open()
        return await self._disk._in_thread(0.1, partial(self._disk._read_page, self._inode, self.name, position, length))

    async def read_all(self, places: Sequence[tuple[int, int]]) -> list[Buffer]:
        return [await self.read(position, length) for position, length in places]

    def close(self) -> None:
        self._disk.check_alive()
        self._closed = True

    def _check_open(self) -> None:
        self._disk.check_alive()
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed", self.name)
