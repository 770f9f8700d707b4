"""The contents of a disk, and what remains of them after a power cut.

A file is an inode: bytes, and the changes to them that were not synced. A name is an entry of the
one directory that leads to an inode, and changes of names are kept the same way. Readers see
everything at once, as through the page cache; the medium surely holds only what was synced. At a
power cut a lottery decides for every change that was pending: kept, lost, or torn at a boundary of
512 B, later ones surviving earlier ones if the seed says so. Names are undone one by one, too, but
consistently: when a change is undone, so is every later one that touches the same name or the same
inode.

Instead of two copies of each file there is one, and each pending change remembers the bytes that it
replaced. Syncing then costs nothing but forgetting, and a power cut costs as much as was pending.
Only after a sync has failed are there two copies: as in Linux, the pages are then clean and
readable and no later sync writes them, but they are not on the disk ("success" after a failed sync
is a lie).
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from typing import NamedTuple

SECTOR = 512
UNLIMITED = 1 << 60


class Change(NamedTuple):
    """A write (`resize` is false), or a change of a file's length. `old` is what it replaced or cut
    off.
    """

    serial: int
    position: int
    new: bytes
    old: bytes
    size_before: int
    size_after: int
    resize: bool

    def undo(self, image: bytearray) -> None:
        """Takes it back. All later changes were taken back before."""
        if self.size_after > self.size_before:
            del image[self.size_before :]
        image[self.position : self.position + len(self.old)] = self.old

    def redo(self, image: bytearray) -> None:
        """Applies it, to an image in which earlier changes may be missing."""
        if self.resize:
            resized(image, self.size_after)
        else:
            overwrite(image, self.position, self.new)


def overwrite(image: bytearray, position: int, data: bytes) -> None:
    """Writes; what lies between the end so far and the position becomes zeros."""
    if position > len(image):
        image.extend(bytes(position - len(image)))
    image[position : position + len(data)] = data


def resized(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


class Lottery:
    """Decides what a power cut leaves. Each cut has its own bias, so that it may keep everything or
    nothing; `effects` counts the damage.
    """

    def __init__(self, source: random.Random, reorder: bool) -> None:
        self._source = source
        self._keep = source.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
        self._tear = source.choice((0.0, 0.2, 0.6))
        self._reorder = reorder and source.random() < 0.75
        self.effects: Counter[str] = Counter()

    def apply(self, image: bytearray, changes: list[Change]) -> None:
        """Applies the surviving changes to the durable image of one file."""
        lost = False
        for change in changes:
            if lost and not self._reorder:
                self.effects["write lost"] += 1
            elif self._source.random() < self._tear and not change.resize and self._tear_up(image, change):
                lost = True
                self.effects["write torn"] += 1
            elif self._source.random() < self._keep:
                change.redo(image)
            else:
                lost = True
                self.effects["write lost"] += 1
                if change.size_after > len(image) and self._source.random() < 0.3:
                    resized(image, change.size_after)
                    self.effects["length kept without its bytes"] += 1

    def _tear_up(self, image: bytearray, change: Change) -> bool:
        """Writes some sectors of a change; false if it lies within one, for a sector is written
        whole or not at all.
        """
        first = change.position // SECTOR + 1
        borders = (change.position + len(change.new) - 1) // SECTOR - first + 1
        if borders < 1:
            return False
        cuts = sorted(
            {(first + int(self._source.random() * borders)) * SECTOR - change.position for _ in range(self._source.randint(1, 3))}
        )
        written = self._source.random() < 0.6
        for start, end in zip([0, *cuts], [*cuts, len(change.new)], strict=True):
            if written:
                overwrite(image, change.position + start, change.new[start:end])
            written = not written
        return True

    def survives(self) -> bool:
        """Whether a pending change of a name is kept."""
        return self._source.random() < self._keep


class Inode:
    """A file. `data` is what readers see; `durable` is the other copy, once a sync has failed;
    `openers` is for SQLite's locks.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.data = bytearray()
        self.durable: bytearray | None = None
        self.changes: list[Change] = []
        self.rotten: dict[int, int] = {}
        self.serial = 0
        self.openers: list[object] = []

    def write(self, position: int, new: bytes) -> None:
        data, size = self.data, len(self.data)
        end = position + len(new)
        if self.rotten:
            self._cure(position, end)
        self.serial += 1
        change = Change(self.serial, position, new, bytes(data[position:end]), size, max(size, end), False)
        overwrite(data, position, new)
        self.changes.append(change)

    def resize(self, size: int) -> None:
        before = len(self.data)
        if size != before:
            self._cure(size, before)
            self.serial += 1
            self.changes.append(Change(self.serial, min(size, before), b"", bytes(self.data[size:]), before, size, True))
            resized(self.data, size)

    def synced(self, serial: int) -> None:
        """All changes up to that one are durable."""
        done = 0
        for change in self.changes:
            if change.serial > serial:
                break
            if self.durable is not None:
                change.redo(self.durable)
            done += 1
        del self.changes[:done]

    def sync_failed(self, serial: int, lottery: Lottery) -> None:
        """The changes up to that one are no longer pending, and stay readable; the lottery says
        which of them reached the disk.
        """
        self.heal()
        if self.durable is None:
            self.durable = bytearray(self.data)
            for change in reversed(self.changes):
                change.undo(self.durable)
        given_up = [change for change in self.changes if change.serial <= serial]
        lottery.apply(self.durable, given_up)
        del self.changes[: len(given_up)]

    def cut(self, lottery: Lottery) -> None:
        """The power is gone: only what is durable is left, and what the lottery keeps."""
        rotten = self.heal()
        if self.durable is not None:
            if not self.changes and self.durable != self.data:
                lottery.effects["write lost by a failed sync"] += 1
            self.data, self.durable = self.durable, None
        else:
            for change in reversed(self.changes):
                change.undo(self.data)
        lottery.apply(self.data, self.changes)
        self.changes = []
        for position, bit in rotten.items():
            if position < len(self.data):
                self.rot(position, bit)

    def rot(self, position: int, bit: int) -> bool:
        """Flips a bit on the medium itself, until it is written anew or `heal` is called. While
        there are two copies nothing rots.
        """
        if self.durable is not None or position in self.rotten:
            return False
        self.rotten[position] = bit
        self.data[position] ^= bit
        return True

    def heal(self) -> dict[int, int]:
        """Flips back what has rotted, and says what that was."""
        rotten = dict(self.rotten)
        self._cure(0, len(self.data))
        return rotten

    def _cure(self, start: int, end: int) -> None:
        for position in [position for position in self.rotten if start <= position < end]:
            self.data[position] ^= self.rotten.pop(position)


class NameChange(NamedTuple):
    """A create, rename or unlink: what the names lead to afterwards, all at once or not at all."""

    serial: int
    kind: str
    inode: Inode
    entries: tuple[tuple[str, Inode | None], ...]


class Medium:
    """One directory of files, with what is pending of it. It outlives every process, and knows of
    no fault but the lottery.
    """

    def __init__(self, source: random.Random, *, reorder: bool = True, capacity: int = UNLIMITED) -> None:
        self.capacity = capacity
        self.used = 0
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.name_changes: list[NameChange] = []
        self._source = source
        self._reorder = reorder
        self._serial = 0
        self._inodes = 0

    # ---- names -----------------------------------------------------------------------------------------------------

    def inode(self, name: str) -> Inode:
        found = self.names.get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return found

    def new_inode(self) -> Inode:
        self._inodes += 1
        return Inode(self._inodes)

    def create(self, name: str) -> Inode:
        if name in self.names:
            raise FileExistsError(errno.EEXIST, "the file is there already", name)
        inode = self.new_inode()
        self._change_names("create", inode, (name, inode))
        return inode

    def rename(self, old: str, new: str) -> None:
        inode = self.inode(old)
        if old == new:
            return
        if new in self.names:
            self.used -= len(self.names[new].data)
        self._change_names("rename", inode, (old, None), (new, inode))

    def unlink(self, name: str) -> None:
        inode = self.inode(name)
        self.used -= len(inode.data)
        self._change_names("unlink", inode, (name, None))

    def _change_names(self, kind: str, inode: Inode, *entries: tuple[str, Inode | None]) -> None:
        self._serial += 1
        self.name_changes.append(NameChange(self._serial, kind, inode, entries))
        _enter(self.names, entries)

    @property
    def names_serial(self) -> int:
        """The number of the last change of a name: what a sync of the directory that starts now
        makes durable.
        """
        return self._serial

    def names_synced(self, serial: int) -> None:
        done = [change for change in self.name_changes if change.serial <= serial]
        for change in done:
            _enter(self.durable_names, change.entries)
        del self.name_changes[: len(done)]

    # ---- room ------------------------------------------------------------------------------------------------------

    def make_room(self, inode: Inode, size: int) -> int:
        """Accounts for a file that is to have that size. Returns how many bytes are missing; then
        nothing is taken.
        """
        growth = size - len(inode.data)
        if growth > 0 and self.used + growth > self.capacity:
            return self.used + growth - self.capacity
        self.used += growth
        return 0

    # ---- the end ---------------------------------------------------------------------------------------------------

    def lottery(self) -> Lottery:
        return Lottery(self._source, self._reorder)

    def cut(self) -> Counter[str]:
        """The power is gone. Returns what that did to what was not synced."""
        lottery = self.lottery()
        self._cut_names(lottery)
        self.names = dict(self.durable_names)
        self.name_changes = []
        for inode in self.names.values():
            inode.cut(lottery)
        self.used = sum(len(inode.data) for inode in self.names.values())
        return lottery.effects

    def _cut_names(self, lottery: Lottery) -> None:
        undone: set[str | int] = set()
        for change in self.name_changes:
            touched = {change.inode.number, *(name for name, _ in change.entries)}
            if touched & undone or not lottery.survives():
                undone |= touched
                lottery.effects[f"{change.kind} undone"] += 1
            else:
                _enter(self.durable_names, change.entries)

    def heal(self) -> None:
        """Flips back the bits that rotted, so that what was stored can be compared with what is
        read.
        """
        for inode in self.names.values():
            inode.heal()


def _enter(names: dict[str, Inode], entries: tuple[tuple[str, Inode | None], ...]) -> None:
    for name, inode in entries:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode
