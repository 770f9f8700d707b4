"""What only real processes show of the commands: pipes that close, Ctrl-C, a broker that is not there any more, what is loaded."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import bowstring
from tests.process.serving import LIMIT_SECONDS, command, environment, run

INTERRUPTED = 130


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as running, running.connect() as client:
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send_batch([b"message %d" % number for number in range(50_000)])
        yield running


PIPE_BYTES = 60 * 1024
"""Of the 64 KiB that a pipe takes; a writer of whole pages may leave some of them empty."""


def begun(broker: bowstring.Broker, *arguments: str) -> subprocess.Popen[bytes]:
    variables = environment({"BOWSTRING_SERVER": broker.address})
    return subprocess.Popen(command(*arguments), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE)


def test_a_closed_pipe_is_no_error(broker: bowstring.Broker):
    reading = begun(broker, "read", "orders")
    assert reading.stdout is not None
    assert b'"offset":1,' in reading.stdout.readline()
    reading.stdout.close()
    assert reading.stderr is not None
    assert (reading.stderr.read(), reading.wait(LIMIT_SECONDS)) == (b"", 0)
    reading.communicate()


@pytest.mark.parametrize("asked", [("read", "orders", "-o", "table"), ("topic", "list", "-o", "table")])
def test_a_closed_pipe_behind_a_table_is_no_error(broker: bowstring.Broker, asked: tuple[str, ...]):
    printing = begun(broker, *asked)
    assert printing.stdout is not None
    printing.stdout.close()
    assert printing.stderr is not None
    assert (printing.stderr.read(), printing.wait(LIMIT_SECONDS)) == (b"", 0)
    printing.communicate()


def test_a_reader_that_follows_ends_when_nobody_reads(broker: bowstring.Broker):
    reading = begun(broker, "read", "orders", "--last", "1", "--follow", "-o", "raw")
    assert reading.stdout is not None
    assert reading.stdout.readline() == b"message 49999\n"
    reading.stdout.close()
    assert reading.wait(LIMIT_SECONDS) == 0
    reading.communicate()


def test_ctrl_c_ends_a_reader_that_follows(broker: bowstring.Broker):
    reading = begun(broker, "read", "orders", "--last", "2", "--follow", "--format", "{value}")
    assert reading.stdout is not None
    assert [reading.stdout.readline() for _ in range(2)] == [b"message 49998\n", b"message 49999\n"]
    reading.send_signal(signal.SIGINT)
    assert reading.communicate(timeout=LIMIT_SECONDS) == (b"", b"")
    assert reading.returncode == INTERRUPTED


def _wait_until_full(pipe: int) -> None:
    """Until whoever writes to the pipe has to wait."""
    there = array.array("i", [0])
    while there[0] < PIPE_BYTES:
        fcntl.ioctl(pipe, termios.FIONREAD, there)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_file_is_whole_after_ctrl_c(broker: bowstring.Broker, monkeypatch: pytest.MonkeyPatch, unbuffered: str):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reading = begun(broker, "read", "orders", "--follow", "-o", "arrow")
    assert reading.stdout is not None
    _wait_until_full(reading.stdout.fileno())
    first = os.read(reading.stdout.fileno(), 4)  # not more: `communicate` does not know of what is in the buffer
    reading.send_signal(signal.SIGINT)
    rest, said = reading.communicate(timeout=LIMIT_SECONDS)
    assert (reading.returncode, said) == (INTERRUPTED, b"")
    assert rest.endswith(b"\xff\xff\xff\xff\0\0\0\0")
    offsets = pa.ipc.open_stream(first + rest).read_all().column("offset").to_pylist()
    assert offsets == list(range(1, len(offsets) + 1))


def test_lines_are_published_as_they_come(broker: bowstring.Broker):
    publishing = begun(broker, "produce", "typed", "--receipts")
    assert publishing.stdin is not None
    publishing.stdin.write(b"first\n")
    publishing.stdin.flush()
    with broker.connect() as client:
        client.create_topic("typed", exists_ok=True)
        assert next(iter(client.reader("typed"))).value == b"first"
    out, said = publishing.communicate(b"second\n", timeout=LIMIT_SECONDS)
    assert (len(out.splitlines()), said, publishing.returncode) == (2, b"", 0)


def test_ctrl_c_tells_what_is_stored(broker: bowstring.Broker):
    publishing = begun(broker, "produce", "interrupted")
    assert publishing.stdin is not None
    publishing.stdin.write(b"first\nsecond\n")
    publishing.stdin.flush()
    with broker.connect() as client:
        client.create_topic("interrupted", exists_ok=True)
        assert [message.value for _, message in zip(range(2), client.reader("interrupted"), strict=False)] == [b"first", b"second"]
    publishing.send_signal(signal.SIGINT)
    out, said = publishing.communicate(timeout=LIMIT_SECONDS)
    told = json.loads(out)
    assert (publishing.returncode, told["messages"], told["offsets"]) == (INTERRUPTED, 2, {"0": [1, 2]})
    assert said == b"Interrupted: 2 of the 2 messages that were sent are stored.\n"


def test_commands_pipe_into_each_other(broker: bowstring.Broker):
    reading = begun(broker, "read", "orders", "-o", "arrow")
    publishing = subprocess.run(
        command("produce", "copy", "--input", "arrow"),
        env=environment({"BOWSTRING_SERVER": broker.address}),
        stdin=reading.stdout,
        capture_output=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    reading.communicate()
    assert b'"messages":50000' in publishing.stdout


def test_a_shell_asks_how_a_command_goes_on():
    for typed, number, expected in (("bowstring to", "1", "top\ntopic"), ("bowstring topic de", "2", "describe\ndelete")):
        asked = run(variables={"_BOWSTRING_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": number})
        assert sorted(asked.stdout.split()) == sorted(expected.split())


def test_names_of_topics_and_readers_are_completed(broker: bowstring.Broker):
    with broker.connect() as client:
        client.create_topic("shop.eu", exists_ok=True)
        with client.reader("shop.eu", name="report", end="latest") as reader:
            reader.commit()

    def completed(*words: str) -> list[str]:
        given = {"_BOWSTRING_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return run(variables={**given, "BOWSTRING_SERVER": broker.address}).stdout.split()

    assert completed("bowstring", "read", "shop") == ["shop.eu"]
    assert completed("bowstring", "topic", "describe", "orders", "sh") == ["shop.eu"]
    assert completed("bowstring", "position", "show", "rep") == ["report"]
    assert completed("bowstring", "read", "--server", "bowstring://127.0.0.1:1", "shop") == []


@pytest.mark.parametrize("asked", [["--help"], ["topic", "create", "--help"], ["produce", "--help"], ["read", "--help"], ["topc"]])
def test_help_loads_nothing_that_it_does_not_need(asked: list[str], tmp_path: Path):
    script = f"""
import sys
sys.argv = ["bowstring", *{asked!r}]
from bowstring.cli import main
main.run()
print(sorted({{"pyarrow", "grpc", "numpy", "apsw", "asyncio", "rich"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]"
