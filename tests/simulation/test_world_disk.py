"""The simulated disk: what is synced is never lost, what is not is lost, torn, kept or undone, each of them for some seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.medium import Medium, overwrite, resized
from tests.simulation.node import Incarnation, Node
from tests.simulation.options import Options
from tests.simulation.world import World

Steps = Callable[[Incarnation], Awaitable[None]]


async def for_ever_after(life: Incarnation) -> None:
    await asyncio.Event().wait()


def left_over(seed: int, before: Steps, *, reorder: bool = True, crash: bool = False) -> dict[str, bytes]:
    """The files after a process did something and then the power went, or it was killed."""

    async def main(world: World) -> dict[str, bytes]:
        node = world.node("server")

        async def live(life: Incarnation) -> None:
            await before(life)
            done.set()
            await for_ever_after(life)

        done = asyncio.Event()
        node.start(live)
        await done.wait()
        if crash:
            node.crash()
        else:
            node.power_cut()
        return await contents(node)

    return World(seed, Options(reorder=reorder)).run(main)


async def contents(node: Node) -> dict[str, bytes]:
    """What the next process finds."""
    found: dict[str, bytes] = {}

    async def look(life: Incarnation) -> None:
        for name in life.disk.names():
            file = await life.disk.open(name)
            found[name] = bytes(await file.read(0, await life.disk.size(name)))

    await node.start(look).ended
    return found


async def made(life: Incarnation, name: str, size: int):
    file = await life.disk.create(name, size)
    await life.disk.sync_directory()
    return file


# ---- bytes -----------------------------------------------------------------------------------------------------------


def test_what_was_synced_is_never_lost():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 4096)
        file.write(100, [b"x" * 1000, b"y" * 1000])
        await file.sync()

    for seed in range(50):
        assert left_over(seed, write)["a"] == bytes(100) + b"x" * 1000 + b"y" * 1000 + bytes(4096 - 2100)


def test_what_was_not_synced_is_kept_lost_or_torn_at_sectors():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 4096)
        file.write(512, [b"x" * 2048])

    outcomes: Counter[str] = Counter()
    for seed in range(200):
        found = left_over(seed, write)["a"]
        assert len(found) == 4096
        sectors = [found[at : at + 512] for at in range(0, 4096, 512)]
        assert all(len(set(sector)) == 1 for sector in sectors), "a sector is written whole or not at all"
        written = "".join("x" if sector[0] else "." for sector in sectors)
        assert written[0] + written[5:] == "...."
        outcomes["kept" if written == ".xxxx..." else "lost" if "x" not in written else "torn"] += 1
        outcomes[written] += 1
    assert min(outcomes["kept"], outcomes["lost"], outcomes["torn"]) >= 10
    assert outcomes[".x......"], "the front of a torn write survives"
    assert outcomes["....x..."], "its end does"


def test_a_later_write_can_survive_an_earlier_one_unless_the_option_forbids():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 4096)
        for number in range(4):
            file.write(number * 512, [b"x" * 512])

    def patterns(reorder: bool) -> set[str]:
        found = [left_over(seed, write, reorder=reorder)["a"] for seed in range(100)]
        return {"".join("x" if each[number * 512] else "." for number in range(4)) for each in found}

    assert patterns(False) <= {"....", "x...", "xx..", "xxx.", "xxxx"}
    assert {".x..", "..x.", "x.x."} & patterns(True)


def test_a_sync_takes_along_what_was_written_before_its_call_and_not_what_came_while_it_ran():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 1024)
        file.write(0, [b"x" * 512])
        sync = asyncio.ensure_future(file.sync())
        await asyncio.sleep(0)
        await asyncio.sleep(1e-5)
        file.write(512, [b"y" * 512])
        await sync

    found = [left_over(seed, write)["a"] for seed in range(60)]
    assert {each[:512] for each in found} == {b"x" * 512}
    assert {each[512:] for each in found} == {b"y" * 512, bytes(512)}


def test_an_unsynced_overwrite_brings_the_old_bytes_back():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 512)
        file.write(0, [b"old!" * 128])
        await file.sync()
        file.write(0, [b"new!" * 128])

    assert {left_over(seed, write)["a"][:4] for seed in range(40)} == {b"old!", b"new!"}


def test_an_extended_file_may_keep_its_length_without_its_bytes():
    async def write(life: Incarnation) -> None:
        file = await made(life, "a", 512)
        file.write(512, [b"x" * 512])

    found = {left_over(seed, write)["a"][512:] for seed in range(150)}
    assert found == {b"", b"x" * 512, bytes(512)}


def test_a_killed_process_leaves_all_that_it_wrote():
    async def write(life: Incarnation) -> None:
        file = await life.disk.create("a", 0)
        file.write(0, [b"x" * 2048])
        life.disk.rename("a", "b")

    for seed in range(20):
        assert left_over(seed, write, crash=True) == {"b": b"x" * 2048}


def test_after_a_failed_sync_the_next_one_succeeds_and_lies():
    async def main(world: World) -> str:
        node = world.node("server")

        async def live(life: Incarnation) -> None:
            world.faulty = False
            file = await made(life, "a", 512)
            file.write(0, [b"x" * 512])
            world.faulty = True
            with pytest.raises(OSError, match="sync failed"):
                await file.sync()
            world.faulty = False
            await file.sync()
            assert await file.read(0, 512) == b"x" * 512, "it stays readable"
            file.write(100, [b"y"])
            await file.sync()

        await node.start(live).ended
        node.power_cut()
        found = (await contents(node))["a"]
        assert found[100:101] == b"y"
        return found[:1].decode()

    runs = [World(seed, Options(sync_error_rate=1.0)).run(main) for seed in range(40)]
    assert set(runs) == {"\0", "x"}


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_that_were_not_synced_are_undone_one_by_one():
    async def change(life: Incarnation) -> None:
        for name in ("renamed", "removed"):
            (await made(life, name, 512)).write(0, [name.encode().ljust(512)])
        for name in ("renamed", "removed"):
            await (await life.disk.open(name)).sync()
        await life.disk.create("created", 512)
        life.disk.rename("renamed", "new")
        life.disk.unlink("removed")

    outcomes = {tuple(left_over(seed, change)) for seed in range(150)}
    for created in ((), ("created",)):
        for renamed in (("new",), ("renamed",)):
            for removed in ((), ("removed",)):
                assert tuple(sorted((*created, *renamed, *removed))) in outcomes


def test_a_synced_directory_keeps_every_name():
    async def change(life: Incarnation) -> None:
        await made(life, "a", 512)
        await made(life, "b", 512)
        life.disk.rename("a", "c")
        life.disk.unlink("b")
        await life.disk.sync_directory()

    assert {tuple(left_over(seed, change)) for seed in range(30)} == {("c",)}


def test_a_rename_over_a_file_gives_the_one_or_the_other_and_a_chain_never_two_names():
    async def change(life: Incarnation) -> None:
        for name in ("a", "b"):
            file = await made(life, name, 1)
            file.write(0, [name.encode()])
            await file.sync()
        life.disk.rename("a", "b")
        life.disk.rename("b", "c")

    outcomes = [left_over(seed, change) for seed in range(100)]
    allowed = [{"a": b"a", "b": b"b"}, {"b": b"a"}, {"c": b"a"}]
    assert all(outcome in allowed for outcome in outcomes)
    assert all(outcome in outcomes for outcome in allowed)


def test_syncing_a_file_does_not_make_its_name_durable():
    async def change(life: Incarnation) -> None:
        file = await life.disk.create("a", 512)
        file.write(0, [b"x" * 512])
        await file.sync()

    outcomes = [left_over(seed, change) for seed in range(60)]
    assert {} in outcomes
    assert all(outcome in ({}, {"a": b"x" * 512}) for outcome in outcomes)


# ---- the medium against a naive one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.0, 1.0])
def test_the_medium_agrees_with_one_that_keeps_two_whole_copies(keep):
    """If the lottery keeps nothing the synced copy is left, if it keeps all the readable one; at most empty length is added."""
    for seed in range(150):
        source = random.Random(seed)
        medium = Medium(source)
        inode, cached, synced = medium.new_inode(), bytearray(), 0
        images = {0: b""}
        for _ in range(40):
            match source.randrange(4):
                case 0 | 1:
                    position, data = source.randrange(3000), source.randbytes(source.randrange(1, 1500))
                    inode.write(position, data)
                    overwrite(cached, position, data)
                case 2:
                    size = source.randrange(4000)
                    inode.resize(size)
                    resized(cached, size)
                case _:
                    serial = source.choice(list(images)[-3:])
                    inode.synced(serial)
                    synced = max(synced, serial)
            images[inode.serial] = bytes(cached)
            assert inode.data == cached
        lottery = medium.lottery()
        lottery._keep, lottery._tear = keep, 0.0
        inode.cut(lottery)
        expected = bytes(cached) if keep else images[synced]
        assert inode.data[: len(expected)] == expected, seed
        assert not any(inode.data[len(expected) :]), seed
