"""`bowstring serve` as a process: its one line, its signals, its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bowstring import errors
from bowstring.messages import encoding
from bowstring.wire.native_client import NativeDialer
from tests.process import wire_calls as wire
from tests.process.serving import SOURCE, complaints, environment, run, serving, start


async def publish_one(address: str, value: bytes, stream: int = 1) -> None:
    """A topic and one durable message."""
    channel = NativeDialer().dial(address)
    await wire.create(channel, "orders", exists_ok=True)
    publishing = await wire.open_publish(channel, "orders", stream=stream)
    assert (await wire.publish(publishing, stream, [value])).stored.rows == 1
    await channel.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_serves_and_ends_clean_on_a_signal(tmp_path: Path, number: int):
    with serving("--data", str(tmp_path / "new" / "data")) as served:
        assert served.place == str(tmp_path / "new" / "data")
        await publish_one(served.address, b"a")
        code, log = served.end(number)
        assert (code, complaints(log)) == (0, [])
        assert f"the broker has stopped reason={signal.Signals(number).name}" in log
        assert (tmp_path / "new" / "data" / "lock").read_text().strip() == ""  # given back, not left
    with serving("--data", str(tmp_path / "new" / "data")) as served:
        channel = NativeDialer().dial(served.address)
        assert await wire.read_all(channel, "orders", 2) == [b"a"]
        await channel.close()


async def test_what_was_acknowledged_survives_sigkill(tmp_path: Path):
    for number in (1, 2, 3):
        with serving("--data", str(tmp_path)) as served:
            await publish_one(served.address, b"%d" % number, stream=number)
            assert served.end(signal.SIGKILL)[0] == -signal.SIGKILL
    with serving("--data", str(tmp_path)) as served:
        channel = NativeDialer().dial(served.address)
        assert await wire.read_all(channel, "orders", 4) == [b"1", b"2", b"3"]
        await channel.close()


async def test_a_stream_that_is_open_does_not_hold_up_the_end(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        channel = NativeDialer().dial(served.address)
        await wire.create(channel, "orders")
        publishing = await wire.open_publish(channel, "orders")
        await wire.publish(publishing, 1, [b"a"])
        reading = await wire.open_fetch(channel, "orders", (0, 2, 0))
        served.process.send_signal(signal.SIGTERM)
        for stream in (publishing, reading):
            await wire.refused(stream.read(), errors.Unavailable, "the broker is stopping")
        code, log = served.wait()
        assert (code, complaints(log)) == (0, [])
        await channel.close()


def test_a_second_server_on_a_directory_is_told_who_serves_it(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        for listen in ("127.0.0.1:0", served.address):
            second = run("serve", "--data", str(tmp_path), "--listen", listen)
            assert second.returncode == 1
            assert second.stdout == ""
            assert f"the data directory {tmp_path} is served by {served.address} (pid {served.process.pid})" in second.stderr
            assert len(second.stderr.splitlines()) == 1
        assert json.loads((tmp_path / "lock").read_text())["address"] == served.address


def test_a_server_on_a_fixed_port_is_named_by_it(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with serving("--data", str(tmp_path), "--listen", address):
        assert json.loads((tmp_path / "lock").read_text())["address"] == address


def test_a_port_in_use(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("serve", "--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 3
    said = f"bowstring: port {port} on 127.0.0.1 is in use by another program. Stop that one, or choose another port: --listen HOST:PORT.\n"
    assert done.stderr == said
    with serving("--data", str(tmp_path)):
        pass  # the directory was let go


def test_two_brokers_do_not_share_a_port(tmp_path: Path):
    with serving("--data", str(tmp_path / "a")) as served:
        done = run("serve", "--data", str(tmp_path / "b"), "--listen", served.address)
        assert done.returncode == 3
        assert "in use" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic-retention", "7 dayz"], '--topic-retention = "7 dayz" is not a span of time'),
        (["--batch-bytes-max", "lots"], '--batch-bytes-max = "lots" is not a size'),
        (["--store", "tape"], 'Use "local" or "memory"'),
        (["--listen", "here"], 'listen = "here" is not an address'),
        (["--listen", "203.0.113.7:0"], "is not an address of this machine"),
        (["--listen", "nowhere.invalid:1"], "there is no host nowhere.invalid"),
        (["--no-such-flag"], "--no-such-flag"),
        (["extra"], "extra"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], said: str):
    done = run("serve", "--data", str(tmp_path), *arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_settings_from_the_environment(tmp_path: Path):
    wrong = run("serve", variables={"BOWSTRING_SEGMENT_BYTES_MAX": "1"})
    assert wrong.returncode == 2
    assert 'BOWSTRING_SEGMENT_BYTES_MAX = "1" is out of range' in wrong.stderr
    unknown = run("serve", variables={"BOWSTRING_SPEED": "high"})
    assert unknown.returncode == 2
    assert "there is no setting BOWSTRING_SPEED" in unknown.stderr
    with serving(variables={"BOWSTRING_DATA": str(tmp_path), "BOWSTRING_SERVER": "bowstring://elsewhere"}) as served:
        assert served.place == str(tmp_path)
    with serving(variables={"XDG_DATA_HOME": str(tmp_path / "home")}) as served:
        assert served.place == str(tmp_path / "home" / "bowstring")


def test_check_looks_and_does_nothing(tmp_path: Path):
    done = run("serve", "--data", str(tmp_path / "data"), "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "The settings are right.\n", "")
    assert not (tmp_path / "data").exists()


def test_a_broker_in_memory_leaves_no_file(tmp_path: Path):
    with serving("--store", "memory", variables={"HOME": str(tmp_path), "XDG_DATA_HOME": ""}) as served:
        assert served.place == "memory"
        assert served.end()[0] == 0
    assert list(tmp_path.iterdir()) == []


async def test_a_unix_socket(tmp_path: Path):
    address = f"unix:{tmp_path}/socket"
    with serving("--data", str(tmp_path / "data"), "--listen", address) as served:
        assert served.address == address
        await publish_one(address, b"a")
        code, log = served.end()
        assert (code, complaints(log)) == (0, [])


def unusable(tmp_path: Path) -> Path:
    """A directory that cannot be written to, also by root."""
    if os.geteuid() == 0:
        return Path("/proc/self")
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o500)
    return folder


def test_directories_that_cannot_hold_data(tmp_path: Path):
    plain = tmp_path / "file"
    plain.touch()
    for folder, said in (
        (plain, "is not a directory"),
        (plain / "below", "is not a directory"),
        (unusable(tmp_path), "the data directory"),
    ):
        done = run("serve", "--data", str(folder), "--listen", "127.0.0.1:0")
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_data_of_another_version_and_data_that_is_damaged(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        served.end()
    catalog = sqlite3.connect(tmp_path / "catalog.sqlite")
    catalog.execute("PRAGMA user_version = 999")
    catalog.close()
    later = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert later.returncode == 1, later.stderr
    assert "999" in later.stderr
    assert len(later.stderr.splitlines()) == 1
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database at all" * 1000)
    damaged = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert damaged.returncode == 5, damaged.stderr
    assert len(damaged.stderr.splitlines()) == 1


async def test_segments_without_their_catalog_are_left_alone(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        channel = NativeDialer().dial(served.address)
        await wire.create(channel, "orders")
        await wire.publish(await wire.open_publish(channel, "orders"), 1, [b"x" * 100_000])
        await channel.close()
        served.end()
    (tmp_path / "catalog.sqlite").rename(tmp_path / "elsewhere")
    before = sorted(os.listdir(tmp_path))
    refused = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert refused.returncode == 5, refused.stderr
    assert "no catalog.sqlite" in refused.stderr
    assert sorted(os.listdir(tmp_path)) == before


def fail_syncs(pid: int) -> subprocess.Popen[bytes]:
    """From now on every fdatasync of the process fails. It ends with the process."""
    options = ["-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]
    attached = subprocess.Popen(["strace", *options, "-p", str(pid)])
    while any("TracerPid:\t0" in status.read_text() for status in Path(f"/proc/{pid}/task").glob("*/status")):
        assert attached.poll() is None, "strace could not attach"
    return attached


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace makes the sync fail; install it to run this")
async def test_a_failed_sync_ends_the_process(tmp_path: Path):
    served = start("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    channel = NativeDialer().dial(served.address)
    await wire.create(channel, "orders")
    publishing = await wire.open_publish(channel, "orders")
    await wire.publish(publishing, 1, [b"before"])
    attached = fail_syncs(served.process.pid)
    await publishing.write(wire.request(2, encoding.encode_values([b"x" * 100_000])))
    await wire.refused(publishing.read(), errors.Unavailable)
    code, said = served.wait()
    attached.wait()
    await channel.close()
    assert code == 3
    assert "the broker has ended because its disk failed" in said
    assert " ERROR   the broker has ended, because its disk failed cause=" in said
    assert 'the broker has stopped reason="its disk failed"' in said
    assert "Traceback" not in said
    with serving("--data", str(tmp_path)) as again:
        channel = NativeDialer().dial(again.address)
        assert (await wire.read_all(channel, "orders", 2)) == [b"before"]
        await channel.close()


def test_help_and_version_load_no_broker():
    script = "import sys, bowstring.cli.main; print(sorted({'pyarrow', 'grpc', 'numpy', 'apsw', 'asyncio', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    listed = run("--help")
    assert listed.returncode == 0
    assert "serve" in listed.stdout
    assert "version" in listed.stdout
    helped = run("serve", "--help")
    assert helped.returncode == 0
    assert "bowstring serve --data ./data" in helped.stdout
    assert "--batch-bytes-max" in helped.stdout
    assert run("version").stdout.startswith("bowstring ")
    assert run().returncode == 2
    assert Path(SOURCE).is_dir()
