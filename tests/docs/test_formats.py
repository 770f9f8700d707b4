"""A data directory read by what docs/formats.md says, and by nothing of ours: numbers and places are those of the page."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import google_crc32c
import msgspec
import pytest

from bowstring.core.ledger_changes import LedgerChange
from tests.process import stored

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
VERSIONS = {name: int(number) for name, number in re.findall(r"^\| ([a-z' ]+) \| (\d) \|", PAGE, flags=re.MULTILINE)}
FRAME = struct.Struct("<4sHHQQQQIQI4xI")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored.store(tmp_path_factory.mktemp("formats") / "data").data


def rows(data: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(data / "catalog.sqlite")) as connection:
        return connection.execute(query).fetchall()


def frame(bytes_there: bytes, segment: int, position: int) -> tuple[int, list[Any], bytes]:
    """Sequence, header and body of a frame, checked as the page says."""
    magic, version, _, in_segment, _, sequence, body_bytes, header_bytes, at, broker, crc = FRAME.unpack_from(bytes_there)
    content = bytes_there[64 : 64 + header_bytes + body_bytes]
    assert (magic, version, in_segment, at, broker) == (b"BOWF", 3, segment, position, 0 if segment else 1)
    assert google_crc32c.value(bytes_there[:60] + content) == crc
    return sequence, msgspec.msgpack.decode(content[:header_bytes]), content[header_bytes:]


def in_segment(data: Path, segment: int, position: int) -> tuple[int, list[Any], bytes]:
    assert position % 64 == 0
    return frame((data / f"segment-{segment:016x}").read_bytes()[position:], segment, position)


def changes(data: Path) -> Iterator[tuple[int, bytes, list[Any]]]:
    for position, epoch, crc, changed, pages in rows(data, "select position, epoch, crc, changes, pages from journal order by position"):
        broker, sequence = (position >> 48) + 1, position & (1 << 48) - 1
        assert broker == 1
        head = struct.pack("<qqq", position, epoch, len(pages or b""))
        assert google_crc32c.value(head + changed) == crc
        version, found = msgspec.msgpack.decode(changed)
        assert version == VERSIONS["journal row"]
        for change in found:
            yield sequence, pages, change


def test_every_file_of_a_directory_is_on_the_page(data: Path) -> None:
    shapes = [re.escape(name) for name in re.findall(r"^\| `([^`]+)`(?:, `-wal`)? \|", PAGE, flags=re.MULTILINE)]
    shapes = [re.sub(r"(?:[0-9a-f]{16})", "[0-9a-f]{16}", shape) for shape in shapes]
    for path in data.iterdir():
        name = re.sub(r"-(wal|shm)$", "", path.name)
        assert any(re.fullmatch(shape.replace(r"free\-3", r"free-\d+"), name) for shape in shapes), name


def test_the_versions_are_those_of_the_page(data: Path) -> None:
    assert rows(data, "pragma user_version") == [(VERSIONS["catalog"],)]
    heads = rows(data, "select state from state where machine = 'partition'")
    assert {msgspec.msgpack.decode(state)[0] for (state,) in heads} == {VERSIONS["snapshot"]}


def test_the_journal_leads_to_its_pages(data: Path) -> None:
    seen = 0
    for sequence, pages, change in changes(data):
        if change[0] != 1:
            continue
        _, topic, partition, _, count, _, columns, producer, number, _, _, _, segment, position, length = change
        found = in_segment(data, segment, position) if segment else frame(pages[position : position + length], 0, position)
        assert found[0] == sequence
        assert found[1] == [topic, partition, 1, columns, count, [[count, producer, number, 0, "default", 0, 0]]]
        assert found[2].startswith(b"\xff\xff\xff\xff")
        seen += count
    assert seen


def test_extents_lead_to_their_pages_and_ids(data: Path) -> None:
    extents = rows(data, "select topic, partition, first_offset, end_offset, pages, sections from extent")
    assert len(extents) >= 4
    for topic, partition, first, end, pages, sections in extents:
        places = {kind: (segment, position) for kind, segment, position, _, _ in msgspec.msgpack.decode(sections)}
        _, header, body = in_segment(data, *places["index"])
        assert header[:7] == ["index", 2, topic, partition, first, end, pages]
        numbers = struct.unpack(f"<{12 * pages}q", body)
        for row in range(pages):
            offset, count, _, in_file, at, _, sequence, *_ = numbers[row::pages]
            assert first <= offset < end
            page = in_segment(data, in_file, at)
            assert (page[0], page[1][:2], page[1][4]) == (sequence, [topic, partition], count)
        _, ids, body = in_segment(data, *places["ids"])
        assert (ids[0], ids[6] >= end - first) == ("ids", True)
        starts_bytes = 4 * (2 ** ids[7] + 1)
        for number in range((len(body) - starts_bytes) // 24):
            block_segment, block_position, _ = struct.unpack_from("<3q", body, starts_bytes + 24 * number)
            _, block, entries = in_segment(data, block_segment, block_position)
            assert (block[0], len(entries)) == ("id-block", 8 * block[6])


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten messages: the third is acked before a seal, the fifth after it; the subscription `old` is gone."""
    data = tmp_path_factory.mktemp("queue") / "data"
    with stored.broker(data) as running, running.connect() as client:
        client.create_topic("orders")
        client.create_subscription("orders", "old")
        client.delete_subscription("orders", "old")
        client.create_subscription("orders", "billing", lease=7)
        with client.producer("orders") as producer:
            for number in range(10):
                producer.send(b"%d" % number).result(30)
        for offset in (3, 5):
            with client.consumer("orders", "billing", name="ada", credit=10) as consumer:
                next(message for message in consumer if message.offset == offset).ack().result(30)
            if offset == 3:
                stored.seal(running)
    return data


def spans(differences: list[int]) -> list[int]:
    """The rows of a change, as the page says."""
    found, offset = list[int](), 0
    for skipped, count in zip(differences[::2], differences[1::2], strict=True):
        found += range(offset + skipped, offset + skipped + count)
        offset += skipped + count
    return found


def test_a_subscription_is_its_changes_and_its_state(queue: Path) -> None:
    tags = {name: int(tag) for name, tag in re.findall(r"^([a-z ]+?) +\[(\d+), …", PAGE, flags=re.MULTILINE)}
    assert set(tags.values()) == {kind.__struct_config__.tag for kind in get_args(LedgerChange)}
    heads = rows(queue, "select state from state where machine = 'partition'")
    assert [msgspec.msgpack.decode(state)[-2:] for (state,) in heads] == [[3, [2]]]
    ((head,),) = rows(queue, "select state from state where machine = 'ledger-2' and part = 0")
    version, name, settings, _, _, floor, cursor, next_grant, _, _, _, consumers, *_ = msgspec.msgpack.decode(head)
    assert (version, name, settings) == (VERSIONS["ledger"], "billing", ["shared", 7_000_000, 10, None, "", "drop", 0, ""])
    assert (floor, cursor, next_grant >= 2, [one[1] for one in consumers]) == (1, 11, True, ["ada"])
    assert {row[0] for row in rows(queue, "select distinct machine from state")} == {"partition", "ledger-2"}
    ours = [change for _, _, change in changes(queue) if change[0] >= 6]
    assert all(change[1:4] == [1, 0, 2] for change in ours)
    settled = [part for change in ours if change[0] == tags["settle"] for part in change[6]]
    assert [spans(part[2]) for part in settled if part[1] == 1] == [[5]]
    grants = [change for change in ours if change[0] == tags["grant"]]
    assert spans(grants[-1][8]) == [1, 2, *range(4, 11)]
