"""The real disk, beyond what every disk promises: how the operating system can fail us, and who may have the directory."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest

from bowstring import errors
from bowstring.host.disk import HostDisk
from bowstring.host.lock import DirectoryLock
from bowstring.host.zeros import write_zeros

MIB = 1 << 20


def fails(number: int) -> Callable[..., object]:
    def call(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return call


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def disk(tmp_path: Path):
    disk = HostDisk(tmp_path)
    disk.lock("here")
    yield disk
    disk.unlock()


# Files


@pytest.mark.parametrize("seconds", [0, 0.5, 3600])
async def test_a_new_file_has_its_blocks_and_reads_as_zeros(tmp_path: Path, seconds: float):
    disk = HostDisk(tmp_path, prewrite_seconds=seconds)
    size = 9 * MIB + 12_345
    file = await disk.create("one", size)
    assert os.stat(tmp_path / "one").st_blocks * 512 >= size
    assert not any(await file.read(0, size))
    assert stat.S_IMODE(os.stat(tmp_path / "one").st_mode) == 0o600
    file.close()
    disk.unlock()


@pytest.mark.parametrize("step", ["posix_fallocate", "pwrite", "fsync"])
async def test_a_file_that_cannot_be_made_is_not_left_behind(disk: HostDisk, monkeypatch: pytest.MonkeyPatch, step: str):
    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            await disk.create("one", MIB)
    assert disk.names() == ["lock"]
    assert open_descriptors() == before
    (await disk.create("one", MIB)).close()


@pytest.mark.parametrize("step", ["open", "pwrite"])
def test_where_direct_writing_is_not_known_a_file_is_left_unwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    (tmp_path / "one").touch()
    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails(errno.EINVAL))
        write_zeros(str(tmp_path / "one"), MIB, 3600, threading.Event())
    assert (tmp_path / "one").stat().st_size == 0
    assert open_descriptors() == before


def test_zeros_end_when_the_time_is_up_or_somebody_says_stop(tmp_path: Path):
    (tmp_path / "one").touch()
    stop = threading.Event()
    write_zeros(str(tmp_path / "one"), MIB, 0, stop)
    assert (tmp_path / "one").stat().st_size == 0
    stop.set()
    write_zeros(str(tmp_path / "one"), MIB, 3600, stop)
    assert (tmp_path / "one").stat().st_size == 0


async def test_a_short_write_is_continued_where_it_ended(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    file = await disk.create("one", MIB)
    whole = os.pwritev

    def short(descriptor: int, buffers: Sequence[bytes], position: int) -> int:
        return whole(descriptor, [b"".join(bytes(buffer) for buffer in buffers)[:7]], position)

    buffers = [bytes([n]) * (n % 5) for n in range(100)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", short)
        file.write(10, buffers)
    assert bytes(await file.read(0, 300)) == (bytes(10) + b"".join(buffers)).ljust(300, b"\0")
    file.close()


async def test_a_disk_that_takes_nothing_and_says_nothing_is_an_error(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    file = await disk.create("one", MIB)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", lambda *_: 0)
        with pytest.raises(OSError, match="takes no more bytes"):
            file.write(0, [b"something"])
    file.close()


async def test_a_short_read_is_continued_until_the_end_of_the_file(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    file = await disk.create("one", 1_000)
    file.write(0, [bytes(range(250)) * 4])
    whole = os.preadv
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", lambda descriptor, buffers, position: whole(descriptor, [buffers[0][:77]], position))
        assert bytes(await file.read(100, 5_000)) == (bytes(range(250)) * 4)[100:]
    file.close()


async def test_what_is_read_is_read_only_and_aligned(disk: HostDisk):
    file = await disk.create("one", MIB)
    for length in (1, 100, 5_000, MIB):
        found = await file.read(3, length)
        assert isinstance(found, memoryview)
        assert found.readonly
        assert numpy.frombuffer(found, numpy.uint8).ctypes.data % 64 == 0
    file.close()


async def test_a_failed_sync_stays_failed(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    """The kernel tells of a lost write once; the next sync would call it a success."""
    file = await disk.create("one", MIB)
    file.write(0, [b"lost"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            await file.sync()
    with pytest.raises(OSError, match="an earlier sync failed"):
        await file.sync()
    file.close()


async def test_a_sync_that_fails_after_its_caller_was_cancelled_is_not_forgotten(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    file = await disk.create("one", MIB)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails(errno.EIO))
        syncing = asyncio.create_task(file.sync())
        await asyncio.sleep(0)
        syncing.cancel()
        await asyncio.wait([syncing])
        await disk.sync_directory()  # runs behind it, on the same thread
    with pytest.raises(OSError, match="an earlier sync failed"):
        await file.sync()
    file.close()


async def test_closing_a_file_waits_for_those_who_read_in_it(disk: HostDisk, monkeypatch: pytest.MonkeyPatch):
    file = await disk.create("one", 1_000)
    before = open_descriptors()
    whole = os.preadv

    def closing(descriptor: int, buffers: Sequence[memoryview], position: int) -> int:
        file.close()
        assert open_descriptors() == before
        return whole(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", closing)
    assert len(await file.read(0, 500)) == 500
    assert open_descriptors() == before - 1


async def test_a_closed_file_is_neither_read_written_nor_synced(disk: HostDisk):
    file = await disk.create("one", 1_000)
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.write(0, [b"late"])
    with pytest.raises(OSError, match="closed"):
        await file.read(0, 10)
    with pytest.raises(OSError, match="closed"):
        await file.sync()


async def test_a_file_whose_opener_was_cancelled_is_closed_again(disk: HostDisk):
    before = open_descriptors()
    openings = [asyncio.create_task(disk.create("one", MIB))]
    await asyncio.sleep(0)
    openings[0].cancel()
    await asyncio.wait(openings)
    (await disk.create("two", 10)).close()  # runs behind it, on the same thread
    await asyncio.sleep(0)
    assert open_descriptors() == before


# The directory


async def test_only_files_are_listed(disk: HostDisk, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    assert disk.names() == ["file", "lock"]


async def test_a_missing_directory_is_made_for_this_user_alone(tmp_path: Path):
    disk = HostDisk(tmp_path / "a" / "b")
    disk.lock("here")
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b").st_mode) == 0o700
    assert disk.names() == ["lock"]
    disk.unlock()


async def test_the_directory_stays_the_same_when_the_process_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    disk = HostDisk("data")
    disk.lock("here")
    monkeypatch.chdir("/")
    (await disk.create("one", 10)).close()
    assert (tmp_path / "data" / "one").exists()
    disk.unlock()


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_is_no_data_directory(tmp_path: Path, path: str):
    (tmp_path / "file").touch()
    with pytest.raises(errors.InvalidArgument, match=r"is not a directory\. Name a directory"):
        HostDisk(tmp_path / path).lock("here")


@pytest.mark.parametrize(
    ("number", "kind", "says"),
    [
        (errno.EROFS, errors.InvalidArgument, "mounted read-only. Name a directory that can be written to"),
        (errno.EACCES, errors.InvalidArgument, f"cannot be written to by this user (uid {os.geteuid()})"),
        (errno.ENOSPC, errors.Full, "full. Free some space"),
        (errno.ENOLCK, errors.InvalidArgument, "cannot be used: No locks available. Name a directory on a local disk"),
    ],
)
def test_a_directory_that_cannot_be_used_is_refused_with_what_would_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[errors.Error], says: str
):
    monkeypatch.setattr(os, "open", fails(number))
    with pytest.raises(kind) as refused:
        HostDisk(tmp_path).lock("here")
    assert str(tmp_path) in str(refused.value)
    assert says in str(refused.value)


async def test_unlocking_gives_up_a_file_that_is_being_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = HostDisk(tmp_path)
    disk.lock("here")
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: disk._stopping.wait())
    making = asyncio.create_task(disk.create("one", 100 * MIB))
    await asyncio.sleep(0)
    disk.unlock()
    with pytest.raises(OSError, match="being unlocked"):
        await making
    assert disk.names() == ["lock"]


# The lock


def test_the_lock_file_says_who_serves_the_directory(disk: HostDisk, tmp_path: Path):
    assert json.loads((tmp_path / "lock").read_text()) == {"pid": os.getpid(), "address": "here", "embedded": False}


def test_a_second_disk_in_the_same_process_is_refused(disk: HostDisk, tmp_path: Path):
    with pytest.raises(errors.Conflict) as refused:
        HostDisk(tmp_path).lock("there")
    assert f"the data directory {tmp_path} is served by here (pid {os.getpid()})." in str(refused.value)
    assert refused.value.details == {"address": "here", "pid": str(os.getpid())}


SAME_MODULES = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
HOLDER = """
import sys
from bowstring.host.disk import HostDisk
disk = HostDisk(sys.argv[1])
disk.lock("localhost:7777")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def child(program: str, directory: Path, *, says: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has said its word, and waits for its input to end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory)], env=SAME_MODULES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == says
        yield running


def test_another_process_is_named_while_it_lives_and_no_obstacle_when_it_was_killed(tmp_path: Path):
    with child(HOLDER, tmp_path, says="locked\n") as holder:
        disk = HostDisk(tmp_path)
        with pytest.raises(errors.Conflict, match=rf"localhost:7777 \(pid {holder.pid}\)"):
            disk.lock("here")
        holder.kill()
        holder.wait()
    disk.lock("here")
    assert json.loads((tmp_path / "lock").read_text())["address"] == "here"
    disk.unlock()


FORKED = """
import os, sys
from bowstring.host.disk import HostDisk
disk = HostDisk(sys.argv[1])
disk.lock("parent")
if os.fork() == 0:
    print("forked", flush=True)
sys.stdin.readline()
os._exit(0)
"""


def test_a_forked_child_does_not_hold_on_to_its_parents_lock(tmp_path: Path):
    with child(FORKED, tmp_path, says="forked\n") as parent:
        disk = HostDisk(tmp_path)
        with pytest.raises(errors.Conflict):
            disk.lock("here")
        parent.kill()
        parent.wait()
        disk.lock("here")  # the child is still there: it ends when its input does, below
        disk.unlock()


@pytest.mark.parametrize("content", ["", "not JSON", "[]", '{"pid": "x", "address": 1}', '{"pid": 1}'])
def test_a_holder_that_does_not_say_who_it_is_is_respected_all_the_same(tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bowstring.host.lock._LOOK_SECONDS", 0)
    lock = DirectoryLock(str(tmp_path))
    lock.take("here")
    (tmp_path / "lock").write_text(content)
    with pytest.raises(errors.Conflict, match="another process, which does not say who it is"):
        HostDisk(tmp_path).lock("there")
    lock.give_back()


def test_the_lock_of_a_killed_process_is_not_told_as_the_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between taking the lock and saying so, the file still says what the process before it said."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = DirectoryLock(str(tmp_path))
    lock.take("now")
    now = (tmp_path / "lock").read_text()
    (tmp_path / "lock").write_text(json.dumps({"pid": gone.pid, "address": "before"}))
    monkeypatch.setattr("bowstring.host.lock.time.sleep", lambda _: (tmp_path / "lock").write_text(now))
    with pytest.raises(errors.Conflict, match="served by now"):
        DirectoryLock(str(tmp_path)).take("there")
    lock.give_back()


def test_a_failure_to_take_the_lock_leaves_no_file_open(disk: HostDisk, tmp_path: Path):
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(errors.Conflict):
            HostDisk(tmp_path).lock("there")
    assert open_descriptors() == before
