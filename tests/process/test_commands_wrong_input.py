"""Every mistake in commands, files and values gets one sentence that says what to do:
`wrong_input.txt`.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import bowstring
from tests.process import ephemeral
from tests.process.commanding import Commander

TABLE = (Path(__file__).parent / "wrong_input.txt").read_text(encoding="utf-8")
CASES = [
    (match[1], int(match[2]), " ".join(match[3].split())) for match in re.finditer(r"^\$ (.*)\n(\d) ((?:.*\n)(?:  .*\n)*)", TABLE, re.M)
]
CALLS = [(match[1], " ".join(match[2].split())) for match in re.finditer(r"^>>> (.*)\n((?:.*\n)(?:  .*\n)*)", TABLE, re.M)]
FILES = {
    "span.toml": '# ours\n[topic]\nretention = "7 dayz"\n',
    "unknown.toml": '[topic]\nretension = "7d"\n',
    "toml.toml": "listen = \n",
    "size.toml": '[batch]\nbytes-max = "lots"\n',
    "range.toml": "connections.max = 0\n",
    "twice.toml": 'topic-retention = "7d"\n[topic]\nretention="8d"\n',
    "kind.toml": "listen = 5\n",
    "less.toml": '[segment]\nbytes-first = "64MiB"\nbytes-max = "32MiB"\n',
    "end.toml": 'listen = "',
    "bad.parquet": "PAR1 not really",
    "bad.arrow": "nothing of the kind, at all",
    "empty.arrow": "",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[bowstring.Broker]:
    for running in ephemeral.with_topics({"orders": 2}, topic_create="on-request"):
        with running.connect() as client:
            client.create_subscription("orders", "billing")
            client.create_subscription("orders", "by-key", mode="key_shared")
        yield running


@pytest.fixture
def command(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commander:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes(b"value\ncaf\xe9\n")
    (tmp_path / "folder").mkdir()
    return Commander(broker.address, str(tmp_path))


@pytest.mark.parametrize(("typed", "code", "said"), CASES, ids=[typed for typed, _, _ in CASES])
def test_what_is_typed_wrong_is_told_in_a_sentence(command: Commander, typed: str, code: int, said: str):
    words = shlex.split(typed)
    variables = dict(words.pop(0).split("=", 1) for _ in range(len(words)) if re.match(r"[A-Z_]+=", words[0]))
    stdin = ""
    if "<" in words:
        stdin = words.pop().replace("\\n", "\n")
        words.pop()
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    ended = command(*words, stdin=stdin, variables=variables)
    assert (ended.code, ended.said) == (code, said.replace("HERE", str(Path.cwd())).replace("TODAY", today) + "\n")


@pytest.fixture
def names(broker: bowstring.Broker) -> Iterator[dict[str, object]]:
    """What calls of the table use."""
    with broker.connect() as client:
        client.create_topic("jobs")
        try:
            with client.producer("jobs") as producer, client.consumer("jobs", "work", name="worker-7", credit=4) as consumer:
                producer.send_batch([b"a", b"b", b"c", b"d"]).result()
                message, batch = next(iter(consumer)), next(consumer.batches(3))
                held = {"client": client, "producer": producer, "consumer": consumer, "message": message, "batch": batch}
                yield {**held, "datetime": datetime, "timedelta": timedelta, "UTC": UTC}
        finally:
            client.delete_topic("jobs", missing_ok=True)


@pytest.mark.parametrize(("typed", "said"), CALLS, ids=[typed for typed, _ in CALLS])
def test_what_is_called_wrong_is_told_in_a_sentence(names: dict[str, object], typed: str, said: str):
    *before, last = typed.split("; ")
    for statement in before:
        eval(statement, names)
    with pytest.raises(bowstring.Error) as raised:
        eval(last, names)
    found = f"{type(raised.value).__name__}: {raised.value}"
    assert re.fullmatch(re.escape(said).replace("…", ".+"), found), found


def test_the_table_is_long():
    assert len(CASES) >= 300
    assert len(CALLS) >= 120


def test_nobody_answers(command: Commander):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"bowstring://127.0.0.1:{free.getsockname()[1]}"
    ended = command("topic", "list", "--server", address, "--timeout", "300ms")
    assert ended.code == 3
    assert ended.said.startswith("bowstring: no broker answers at 127.0.0.1:")
    assert ended.said.endswith("Is it running, and is the address right?\n")
    assert len(ended.said.splitlines()) == 1


def test_a_server_that_says_nothing(command: Commander):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended = command("topic", "list", "--server", f"bowstring://127.0.0.1:{silent.getsockname()[1]}", "--timeout", "500ms")
    assert (ended.code, len(ended.said.splitlines())) == (3, 1)


def test_a_group_without_a_command_shows_what_there_is(command: Commander):
    ended = command("topic")
    assert (ended.code, ended.out) == (2, b"")
    assert "bowstring topic create orders --partitions 4" in ended.said
