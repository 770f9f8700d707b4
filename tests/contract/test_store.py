"""The stores that keep the promises of store_contract.py: in memory, on the real disk, and on the one that tests script."""

from __future__ import annotations

from pathlib import Path

import pytest

from bowstring.host.disk import HostDisk
from bowstring.ports.disk import Disk
from bowstring.ports.store import Reference
from bowstring.store.local import LocalStore
from bowstring.store.memory import MemoryStore
from bowstring.store.segments import segment_name
from tests.contract.scripted_disk import Platter, ScriptedDisk

pytest.register_assert_rewrite("tests.contract.store_contract")
pytest.register_assert_rewrite("tests.contract.store_room_contract")
from tests.contract.store_contract import SEGMENT_BYTES, Ground, StoreContract, swap_frames  # noqa: E402
from tests.contract.store_room_contract import StoreRoomContract  # noqa: E402


def local_store(disk: Disk) -> LocalStore:
    return LocalStore(disk, segment_bytes_first=SEGMENT_BYTES, segment_bytes_max=4 * SEGMENT_BYTES)


class TestMemoryStore(StoreContract, StoreRoomContract):
    @pytest.fixture
    def ground(self) -> Ground:
        return Ground(store=lambda: MemoryStore(segment_bytes=SEGMENT_BYTES))


class TestLocalStoreOnTheHost(StoreContract, StoreRoomContract):
    @pytest.fixture
    def ground(self, tmp_path: Path) -> Ground:
        def flip(reference: Reference, at: int) -> None:
            path = tmp_path / segment_name(reference.segment)
            with path.open("r+b") as file:
                file.seek(reference.position + at)
                (byte,) = file.read(1)
                file.seek(reference.position + at)
                file.write(bytes([byte ^ 1]))

        def swap(one: Reference, other: Reference) -> None:
            path = tmp_path / segment_name(one.segment)
            data = bytearray(path.read_bytes())
            swap_frames(data, one, other)
            path.write_bytes(data)

        return Ground(store=lambda: local_store(HostDisk(tmp_path)), outlasts=True, flip=flip, swap=swap)


class TestLocalStoreOnAScriptedDisk(StoreContract, StoreRoomContract):
    @pytest.fixture
    def ground(self) -> Ground:
        platter = Platter()

        def flip(reference: Reference, at: int) -> None:
            platter.names[segment_name(reference.segment)].data[reference.position + at] ^= 16

        def swap(one: Reference, other: Reference) -> None:
            swap_frames(platter.names[segment_name(one.segment)].data, one, other)

        def fill() -> None:
            platter.room = platter.used

        def relieve() -> None:
            platter.room = None

        return Ground(
            store=lambda: local_store(ScriptedDisk(platter)),
            outlasts=True,
            cut=platter.cut,
            flip=flip,
            swap=swap,
            fill=fill,
            relieve=relieve,
        )
