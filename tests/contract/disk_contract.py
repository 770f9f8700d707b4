"""What every `Disk` promises. An implementation joins by a subclass with a `medium` fixture; see test_disk.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from bowstring import errors
from bowstring.ports.disk import Disk


@dataclass
class Medium:
    """Something that disks can be made over, and that keeps what is durable."""

    disk: Callable[[], Disk]
    """Another disk over the same directory, as a second process or the next one would have it."""
    cut: Callable[[], None] | None = None
    """The power goes: disks that were made before are of no more use. None for a disk that cannot be cut in a test."""

    def cut_or_skip(self) -> None:
        if self.cut is None:
            pytest.skip("the power of this disk cannot be cut in a test")
        self.cut()


class DiskContract:
    """Files, names, and what makes them durable."""

    @pytest.fixture
    def disk(self, medium: Medium) -> Disk:
        return medium.disk()

    # Files

    async def test_a_new_file_has_the_size_it_was_made_with(self, disk: Disk):
        file = await disk.create("one", 10_000)
        assert await disk.size("one") == 10_000
        assert len(await file.read(0, 20_000)) == 10_000
        file.close()

    async def test_an_empty_file_can_be_made(self, disk: Disk):
        (await disk.create("empty", 0)).close()
        assert await disk.size("empty") == 0

    async def test_what_is_written_is_read_back(self, disk: Disk):
        file = await disk.create("one", 4096)
        file.write(100, [b"hello ", bytearray(b"wide "), memoryview(b"world")])
        assert bytes(await file.read(100, 16)) == b"hello wide world"
        file.close()

    async def test_a_write_takes_thousands_of_buffers(self, disk: Disk):
        file = await disk.create("one", 1 << 16)
        buffers = [bytes([n % 251]) * (n % 7) for n in range(5_000)]
        file.write(13, buffers)
        whole = b"".join(buffers)
        assert bytes(await file.read(13, len(whole))) == whole
        file.close()

    async def test_a_later_write_replaces_an_earlier_one_and_leaves_its_neighbours(self, disk: Disk):
        file = await disk.create("one", 4096)
        file.write(0, [b"a" * 30])
        file.write(10, [b"b" * 10])
        assert bytes(await file.read(0, 30)) == b"a" * 10 + b"b" * 10 + b"a" * 10
        file.close()

    async def test_a_read_at_the_end_is_short_and_behind_it_empty(self, disk: Disk):
        file = await disk.create("one", 4096)
        assert len(await file.read(4000, 1000)) == 96
        assert len(await file.read(4096, 10)) == 0
        assert len(await file.read(9999, 10)) == 0
        file.close()

    async def test_several_places_are_read_in_the_order_asked_for(self, disk: Disk):
        file = await disk.create("one", 4096)
        file.write(0, [b"first"])
        file.write(4090, [b"last"])
        assert [bytes(part) for part in await file.read_all([(4090, 100), (0, 5), (5000, 1)])] == [b"last\0\0", b"first", b""]
        assert await file.read_all([]) == []
        file.close()

    async def test_many_reads_may_be_under_way_at_once(self, disk: Disk):
        file = await disk.create("one", 1 << 16)
        file.write(0, [bytes(range(256)) * 256])
        found = await asyncio.gather(*(file.read(n * 256, 256) for n in range(256)))
        assert all(bytes(part) == bytes(range(256)) for part in found)
        file.close()

    async def test_what_was_read_does_not_change_when_the_file_does(self, disk: Disk):
        file = await disk.create("one", 4096)
        file.write(0, [b"before"])
        found = await file.read(0, 6)
        file.write(0, [b"after "])
        assert bytes(found) == b"before"
        file.close()

    async def test_a_file_is_opened_again_by_another_disk(self, disk: Disk, medium: Medium):
        file = await disk.create("one", 4096)
        file.write(0, [b"hello"])
        await file.sync()
        await disk.sync_directory()
        file.close()
        again = await medium.disk().open("one")
        assert bytes(await again.read(0, 5)) == b"hello"
        again.close()

    # Names

    async def test_a_name_that_is_there_is_not_made_again(self, disk: Disk):
        (await disk.create("one", 10)).close()
        with pytest.raises(FileExistsError):
            await disk.create("one", 10)

    async def test_what_is_not_there_is_not_opened_measured_renamed_or_unlinked(self, disk: Disk):
        with pytest.raises(FileNotFoundError):
            await disk.open("none")
        with pytest.raises(FileNotFoundError):
            await disk.size("none")
        with pytest.raises(FileNotFoundError):
            disk.rename("none", "some")
        with pytest.raises(FileNotFoundError):
            disk.unlink("none")

    async def test_names_are_listed_in_order(self, disk: Disk):
        for name in ("b", "c", "a"):
            (await disk.create(name, 1)).close()
        assert [name for name in disk.names() if len(name) == 1] == ["a", "b", "c"]

    async def test_a_rename_takes_the_content_along_and_replaces_what_was_there(self, disk: Disk):
        for name in ("old", "new"):
            file = await disk.create(name, 16)
            file.write(0, [name.encode()])
            file.close()
        disk.rename("old", "new")
        assert [name for name in disk.names() if name in ("old", "new")] == ["new"]
        file = await disk.open("new")
        assert bytes(await file.read(0, 3)) == b"old"
        file.close()

    async def test_an_unlinked_name_is_gone(self, disk: Disk):
        (await disk.create("one", 1)).close()
        disk.unlink("one")
        assert "one" not in disk.names()

    # What is durable

    async def test_synced_bytes_under_a_synced_name_survive_a_power_cut(self, disk: Disk, medium: Medium):
        file = await disk.create("one", 4096)
        await disk.sync_directory()
        file.write(512, [b"kept" * 128])
        await file.sync()
        medium.cut_or_skip()
        again = await medium.disk().open("one")
        assert bytes(await again.read(512, 512)) == b"kept" * 128
        again.close()

    async def test_a_synced_directory_keeps_creates_renames_and_unlinks(self, disk: Disk, medium: Medium):
        for name in ("stays", "moves", "goes"):
            (await disk.create(name, 512)).close()
        disk.rename("moves", "moved")
        disk.unlink("goes")
        await disk.sync_directory()
        medium.cut_or_skip()
        assert {"stays", "moved"} <= set(medium.disk().names())
        assert not {"moves", "goes"} & set(medium.disk().names())

    async def test_bytes_synced_before_stay_when_later_ones_are_lost(self, disk: Disk, medium: Medium):
        file = await disk.create("one", 8192)
        await disk.sync_directory()
        file.write(0, [b"k" * 4096])
        await file.sync()
        file.write(4096, [b"l" * 4096])
        medium.cut_or_skip()
        again = await medium.disk().open("one")
        assert bytes(await again.read(0, 4096)) == b"k" * 4096
        again.close()

    # One process at a time

    async def test_a_locked_directory_is_refused_with_the_address_of_its_holder(self, disk: Disk, medium: Medium):
        disk.lock("first:1234")
        with pytest.raises(errors.Conflict) as refused:
            medium.disk().lock("second:1234")
        assert refused.value.details["address"] == "first:1234"
        assert "first:1234" in str(refused.value)
        disk.unlock()

    async def test_an_unlocked_directory_can_be_locked_by_the_next(self, disk: Disk, medium: Medium):
        disk.lock("first:1234")
        disk.unlock()
        second = medium.disk()
        second.lock("second:1234")
        with pytest.raises(errors.Conflict, match="second:1234"):
            disk.lock("first:1234")
        second.unlock()
