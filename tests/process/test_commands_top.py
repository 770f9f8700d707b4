"""`bowstring top`, once, in a pipe and in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import bowstring
from bowstring.cli.output import short
from bowstring.cli.top import fitting
from tests.process import ephemeral
from tests.process.commanding import Commander, commanding
from tests.process.serving import LIMIT_SECONDS, environment
from tests.process.serving import command as command_line

FIGURES = ["delivered", "acked", "nacked", "expired", "backlog", "oldest", "leased", "consumers"]
broker = ephemeral.broker_on_request


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commander]:
    monkeypatch.chdir(tmp_path)
    yield from commanding(broker, tmp_path, orders=1)


@pytest.fixture
def working(broker: bowstring.Broker, command: Commander) -> Iterator[None]:
    """Two queues with 5 messages, of which a consumer of the first holds 2 and has acked 1."""
    with broker.connect() as client, client.producer("orders") as producer:
        client.create_subscription("orders", "audit")
        producer.send_batch([b"a"] * 5).result()
        with client.consumer("orders", "billing", credit=2) as consumer:
            messages = iter(consumer)
            next(messages).ack().result()
            held = [next(messages) for _ in range(2)]
            yield
            for message in held:
                message.nack()


@pytest.mark.usefixtures("working")
def test_top_once_tells_what_each_queue_has(command: Commander):
    rows = {row["name"]: row for row in command.done("top", "orders", "--once").rows}
    assert {name: (row["backlog"], row["leased"], len(row["consumers"])) for name, row in rows.items()} == {
        "billing": (4, 2, 1),
        "audit": (5, 0, 0),
    }
    assert rows["billing"]["rates"]["acked"] > 0
    assert rows["billing"]["oldest"] > 0
    table = command.done("top", "--once", "-o", "table").text
    assert "2 queues: 9 messages not settled, 2 leased to 1 consumer" in table
    headings = next(line for line in table.splitlines() if line.startswith("topic"))
    assert headings.split() == ["topic", "name", *FIGURES]
    assert {*headings.split()} <= {*rows["billing"], *rows["billing"]["rates"]}  # one name for a column and a key


def test_top_without_queues_prints_nothing_to_pipes(command: Commander):
    assert command.done("top", "orders", "--once").rows == []


@pytest.mark.usefixtures("working")
def test_top_looks_again_in_a_terminal_until_ctrl_c(broker: bowstring.Broker):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    variables = {**environment(), "TERM": "xterm", "COLUMNS": "80"}
    arguments = command_line("top", "--every", "100ms", "--server", broker.address)
    process = subprocess.Popen(arguments, env=variables, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while said.count(b"2 queues: 9 messages not settled") < 3:
        said += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_SECONDS) == 130
    assert said.count(b"\x1b[2J") >= 2
    assert "…".encode() not in said  # it fits into 80 columns
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", said.decode())
    assert max(map(len, text.splitlines())) <= 80
    headings = next(line for line in text.splitlines() if line.startswith("topic"))
    assert headings.split() == ["topic", "name", *(name for name in FIGURES if name != "leased")]
    os.close(ours)


@pytest.mark.parametrize(
    ("name", "room", "dropped"),
    [
        ("billing", 200, set()),
        ("billing", 87, set()),
        ("billing", 80, {"leased"}),
        ("invoices-of-the-north", 80, {"leased", "delivered"}),
        ("invoices-of-the-north", 60, {"leased", "delivered", "nacked", "expired"}),
    ],
)
def test_columns_make_room_for_names(name: str, room: int, dropped: set[str]):
    columns = fitting([{"topic": "orders", "name": name}], room)
    assert [*columns] == ["topic", "name", *(figure for figure in FIGURES if figure not in dropped)]


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (99, "99"), (999, "999"), (1000, "1.0k"), (9_960, "10k"), (999_499, "999k"), (999_600, "1.0M"), (5e13, "50T")],
)
def test_short_numbers(number: float, said: str):
    assert short(number) == said


@pytest.mark.parametrize(("rate", "said"), [(0.0, "0.0"), (2.94, "2.9"), (99.94, "99.9"), (99.96, "100"), (1234.5, "1.2k")])
def test_short_rates(rate: float, said: str):
    assert short(rate, digits=1) == said
