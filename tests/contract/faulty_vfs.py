"""SQLite on real files whose writes, syncs and reads can be made to fail: the n-th of a kind, once or from then on."""

from __future__ import annotations

from pathlib import Path

import apsw

FULL = apsw.FullError
BROKEN = apsw.IOError


class Faults:
    """Counts the operations on all files, and raises at the n-th of a kind, then or from then on."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.heal()

    def plan(self, kind: str, n: int, error: type[apsw.Error], *, on: bool = False) -> None:
        self._kind, self._left, self._error, self._on = kind, n, error, on

    def heal(self) -> None:
        self.plan("", 0, FULL)

    @property
    def struck(self) -> bool:
        return bool(self._kind) and self._left <= 0

    def happens(self, kind: str, file: str) -> None:
        self.done.append((kind, file))
        if kind == self._kind:
            self._left -= 1
            if self._left == 0 or (self._on and self._left < 0):
                raise self._error("the fault that was planned")


class FaultyFile(apsw.VFSFile):
    def __init__(self, name: apsw.URIFilename | str | None, flags: list[int], faults: Faults) -> None:
        self._faults = faults
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else str(name)).name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._faults.happens("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._faults.happens("sync", self._name)
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._faults.happens("read", self._name)
        return super().xRead(amount, offset)


class FaultyVFS(apsw.VFS):
    def __init__(self, name: str, faults: Faults) -> None:
        self._faults = faults
        super().__init__(name, base="")

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> FaultyFile:
        return FaultyFile(name, flags, self._faults)
