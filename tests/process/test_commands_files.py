"""`read` into files and pipes, and `produce` out of them: the same messages in every form,
compressed or not, whatever program wrote the file.
"""

from __future__ import annotations

import bz2
import gzip
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import bowstring
from tests.process import ephemeral
from tests.process.commanding import Commander
from tests.process.serving import LIMIT_SECONDS, command, environment

CONTENTS: list[Any] = [
    *(
        None,
        b"",
        b"plain",
        b"\xff\xfe\x00",
        b'{"base64":"AAAA"}',
        b'{"base64": "no"}',
        b'{"order": 7}',
        b"a,b",
        b'"quoted"',
        b"\r",
        b"a\r\nb",
    ),
    *(b"\n", b" spaces ", b"null", b"''", "ä🎣\u2028".encode(), b"\xef\xbb\xbfmark", b"x" * 200_000, b"=1+1", b'""'),
]


broker = ephemeral.broker


@pytest.fixture
def topics(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    """A topic with messages that are hard to print, and one to copy them into."""
    with broker.connect() as client:
        client.create_topic("from", partitions=3)
        client.create_topic("to", partitions=2)
        with client.producer("from") as producer:
            for number, content in enumerate(CONTENTS):
                producer.send(content, key=CONTENTS[-number], attributes={"": "", 'a,"b"': "\r\n"} if number % 3 else None)
        yield client
        client.delete_topic("from")
        client.delete_topic("to")


@pytest.fixture
def commander(broker: bowstring.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commander:
    monkeypatch.chdir(tmp_path)
    return Commander(broker.address, str(tmp_path))


def told(client: bowstring.Client, topic: str) -> list[tuple[Any, ...]]:
    messages = client.reader(topic, end="latest")
    return sorted(
        ((each.id, each.key, each.value, each.attributes, each.created, each.due, each.expires) for each in messages),
        key=lambda row: row[0],
    )


@pytest.mark.parametrize("form", ["csv", "json", "arrow", "parquet"])
def test_a_real_pipe_carries_every_message_as_it_is(broker: bowstring.Broker, topics: bowstring.Client, form: str):
    variables = environment({"BOWSTRING_SERVER": broker.address})
    reading = subprocess.Popen(command("read", "from", "-o", form), env=variables, stdout=subprocess.PIPE)
    assert reading.stdout is not None
    produced = subprocess.run(
        command("produce", "to", "--input", form),
        env=variables,
        stdin=reading.stdout,
        capture_output=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    reading.stdout.close()
    assert (reading.wait(LIMIT_SECONDS), produced.returncode, produced.stderr) == (0, 0, b"")
    assert told(topics, "to") == told(topics, "from")


def zstd(data: bytes) -> bytes:
    return packed(data, "zstd")


def lz4(data: bytes) -> bytes:
    return packed(data, "lz4")


def packed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


def in_two_members(data: bytes) -> bytes:
    return gzip.compress(data[:50]) + gzip.compress(data[50:])


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    *((".gz", gzip.compress), (".GZ", in_two_members), (".zst", zstd), (".bz2", bz2.compress), (".lz4", lz4)),
]


@pytest.mark.parametrize(("ending", "pack"), PACKERS)
@pytest.mark.parametrize("form", ["csv", "json", "arrow", "parquet"])
def test_packed_files_are_unpacked_by_their_names(
    topics: bowstring.Client, commander: Commander, form: str, ending: str, pack: Callable[[bytes], bytes]
):
    data = commander.done("read", "from", "-o", form).out
    Path(f"messages.{form}{ending}").write_bytes(pack(data))
    commander.done("produce", "to", f"messages.{form}{ending}")
    assert told(topics, "to") == told(topics, "from")


def test_packed_lines_are_lines_and_a_packed_file_as_one_message_stays_packed(topics: bowstring.Client, commander: Commander):
    data = gzip.compress(b"\xef\xbb\xbfone\r\ntwo\r\n")
    Path("some.log.gz").write_bytes(data)
    commander.done("produce", "to", "some.log.gz")
    commander.done("produce", "to", "some.log.gz", "--input", "raw")
    assert {row[2] for row in told(topics, "to")} == {b"one", b"two", data}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("not.gz", b"nothing of the kind", "not.gz cannot be read: zlib inflate failed: incorrect header check."),
        ("cut.csv.gz", gzip.compress(b"value\n" + b"x" * 9999)[:-9], "cut.csv.gz cannot be read: Truncated compressed stream."),
        ("not.csv.zst", b"nothing of the kind", "not.csv.zst cannot be read: ZSTD decompress failed: Unknown frame descriptor."),
    ],
    ids=["gz", "cut gz", "zst"],
)
def test_a_file_that_cannot_be_unpacked_is_told_in_a_sentence(
    topics: bowstring.Client, commander: Commander, name: str, data: bytes, said: str
):
    Path(name).write_bytes(data)
    ended = commander("produce", "to", name)
    assert (ended.code, ended.said) == (1, f"bowstring: {said}\n")


def test_what_could_be_unpacked_is_stored(topics: bowstring.Client, commander: Commander):
    Path("cut.txt.gz").write_bytes(gzip.compress(b"a line\n" * 10_000_000)[:-9])
    ended = commander("produce", "to", "cut.txt.gz")
    assert ended.code == 1
    assert ended.rows[0]["messages"] > 100_000


@pytest.mark.parametrize("form", ["arrow", "parquet"])
@pytest.mark.parametrize("kind", [pl.String, pl.Binary, pl.Categorical])
def test_files_of_polars(topics: bowstring.Client, commander: Commander, form: str, kind: Any):
    keys = [f"key-{number % 5}" if number % 6 else None for number in range(30)]
    frame = pl.DataFrame(
        {"key": keys, "value": [f"value {number}" for number in range(30)], "id": [f"id-{number:02}" for number in range(30)]}
    )
    frame = frame.with_columns(pl.col("key").cast(kind), attributes=pl.lit([{"key": "country", "value": "CH"}]))
    (frame.write_ipc if form == "arrow" else frame.write_parquet)(f"frame.{form}")
    commander.done("produce", "to", f"frame.{form}", "--attribute", "not=used")
    found = told(topics, "to")
    assert [(row[0], row[2].decode()) for row in found] == [(f"id-{number:02}", f"value {number}") for number in range(30)]
    assert [row[1] and row[1].decode() for row in found] == keys
    assert all(row[3] == {"country": "CH"} for row in found)


def test_files_of_pandas(topics: bowstring.Client, commander: Commander):
    frame = pd.DataFrame({"key": ["a", None], "value": ["one", ""], "id": ["1", "2"]})
    frame.to_parquet("frame.parquet")
    frame.to_csv("frame.csv", index=False)
    commander.done("produce", "to", "frame.parquet")
    assert [row[:3] for row in told(topics, "to")] == [("1", b"a", b"one"), ("2", None, b"")]
    commander.done("produce", "to", "frame.csv")
    assert len(told(topics, "to")) == 2


def test_columns_that_do_not_go_together_are_told_in_a_sentence(topics: bowstring.Client, commander: Commander):
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])
    pyarrow.parquet.write_table(twice, "twice.parquet")
    both = pa.table({"value": ["a"], "json": ["{}"]})
    with pa.ipc.new_file("both.arrow", both.schema) as writer:
        writer.write_table(both)
    ended = commander("produce", "to", "twice.parquet")
    assert (ended.code, ended.said) == (1, "bowstring: twice.parquet has the column 'value' twice. Give each column once.\n")
    ended = commander("produce", "to", "both.arrow")
    assert (ended.code, ended.said) == (1, "bowstring: both.arrow has both 'value' and 'json'. Give the payload once, as 'value'.\n")


def test_wrong_types_in_a_file_are_told_in_a_sentence(topics: bowstring.Client, commander: Commander):
    pl.DataFrame({"value": ["a"], "due": ["2030-01-01T00:00Z"]}).write_parquet("text.parquet")
    ended = commander("produce", "to", "text.parquet")
    assert (ended.code, ended.said) == (1, "bowstring: due is large_string. Times are timestamps with a time zone.\n")
