"""`bowstring inspect` on real directories: what it tells, that it changes nothing, and its exit codes."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

import bowstring
from bowstring.inspection.contents import Contents
from bowstring.inspection.directory import DataDirectory
from bowstring.inspection.findings import Finding
from bowstring.inspection.verification import Verifier, read_sections
from tests.process import stored
from tests.process.serving import run, serving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> stored.Stored:
    return stored.store(tmp_path_factory.mktemp("stored") / "data")


@pytest.fixture
def data(made: stored.Stored, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.data, tmp_path / "data"))


def objects(said: str) -> list[dict]:
    return [json.loads(line) for line in said.splitlines()]


def test_the_overview_tells_what_is_there_and_changes_nothing(data: Path):
    before = stored.snapshot(data)
    done = run("inspect", str(data))
    assert (done.returncode, done.stderr) == (0, "")
    (told,) = objects(done.stdout)
    assert (told["format"], told["epoch"], told["directory"]) == (3, 1, str(data))
    orders = next(topic for topic in told["topics"] if topic["name"] == "orders")
    assert (orders["messages"], orders["partitions"]) == (26, 1)
    assert orders["ranges"] == [
        {"partition": 0, "first": 1, "floor": 1, "next": 27, "sealed": 23, "deleted": 0, "bytes": orders["ranges"][0]["bytes"]}
    ]
    assert told["reserve_bytes"] == (data / "reserve").stat().st_size
    used = [segment for segment in told["segments"] if segment["state"] == "used"]
    assert used
    assert all(0 < segment["share"] <= 1 for segment in used)
    assert told["orphans"] == told["damaged"] == []
    assert stored.snapshot(data) == before


def test_what_is_only_in_the_wal_is_seen_and_the_wal_is_left_alone(tmp_path: Path):
    with (
        serving("--data", str(tmp_path / "data"), "--topic-create", "on-publish") as served,
        bowstring.connect(served.address) as client,
        client.producer("orders") as producer,
    ):
        producer.send(b"in the WAL").result(30)
        served.end(signal.SIGKILL)
    assert (tmp_path / "data" / "catalog.sqlite-wal").stat().st_size
    before = stored.snapshot(tmp_path / "data")
    done = stored.command("inspect", str(tmp_path / "data"))
    assert objects(done.stdout)[0]["topics"][0]["messages"] == 1
    assert stored.snapshot(tmp_path / "data") == before


def test_a_directory_that_is_served_is_refused_with_the_address(tmp_path: Path):
    with serving("--data", str(tmp_path)) as served:
        for flags in ((), ("--verify",), ("--repair",)):
            done = stored.command("inspect", str(tmp_path), *flags)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"is served by {served.address} (pid {served.process.pid})" in done.stderr
        done = stored.command("inspect", str(tmp_path), "-o", "json")
        assert json.loads(done.stderr)["details"]["address"] == served.address


def test_a_broker_does_not_start_while_somebody_looks(data: Path):
    with DataDirectory(str(data)), DataDirectory(str(data)):
        done = run("serve", "--data", str(data), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert "looked at by bowstring inspect" in done.stderr


@pytest.mark.parametrize("wrong", ["nothing", "empty", "a-file"])
def test_what_is_no_data_directory_is_refused(tmp_path: Path, wrong: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a-file").write_text("x")
    done = stored.command("inspect", str(tmp_path / wrong))
    assert done.returncode == 1
    assert done.stderr.startswith("bowstring: ")
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_format_of_output_is_wrong_usage(data: Path):
    assert stored.command("inspect", str(data), "-o", "yaml").returncode == 2


def test_the_frames_of_a_segment_are_listed_with_what_refers_to_them(data: Path):
    (told,) = objects(stored.command("inspect", str(data)).stdout)
    segment = next(each for each in told["segments"] if each["state"] == "used")
    frames = objects(stored.command("inspect", str(data), "--segment", segment["id"]).stdout)
    assert frames == objects(stored.command("inspect", str(data), "--segment", segment["name"]).stdout)
    assert sum(frame["length"] for frame in frames if frame["referred"]) == segment["alive"]
    pages = [frame for frame in frames if frame["kind"] == "page" and frame["topic"] == "orders"]
    assert {(page["first_offset"], page["last_offset"]) for page in pages} == {(1, 10), (11, 11), (12, 21), (22, 22), (26, 26)}
    assert {frame["kind"] for frame in frames} == {"page", "index", "ids", "id-block"}
    done = stored.command("inspect", str(data), "--segment", "77")
    assert done.returncode == 1
    assert segment["id"] in done.stderr


def test_a_whole_directory_verifies_and_nothing_is_printed(data: Path):
    before = stored.snapshot(data)
    done = stored.command("inspect", str(data), "--verify")
    assert (done.returncode, done.stdout) == (0, "")
    assert "all is whole" in done.stderr
    assert stored.snapshot(data) == before


def every_frame(data: Path) -> dict[str, list[tuple[int, int, int]]]:
    """Position and length of what is referred to, by kind, with the first offset, all in one segment."""
    found: dict[str, list[tuple[int, int, int]]] = {"page": [], "index": [], "ids": []}
    with DataDirectory(str(data)) as directory:
        contents = Contents(directory.catalog)
        for extents in contents.extents.values():
            for extent in extents:
                sealed = read_sections(directory, extent, lambda kind, error: pytest.fail(f"{kind}: {error}"))
                found["index"].append((extent.index.position, extent.index.length, extent.first_offset))
                found["ids"] += [(place.position, place.length, extent.first_offset) for place in sealed.places[1:]]
                found["page"] += [(entry.position, entry.length, entry.first_offset) for entry in sealed.pages.state()]
    return found


def verified(data: Path) -> list[Finding]:
    with DataDirectory(str(data)) as directory:
        return Verifier(directory, Contents(directory.catalog), lambda done, total: None).run().findings


@pytest.mark.parametrize("kind", ["page", "index", "ids"])
def test_every_damaged_frame_is_found_and_named(data: Path, kind: str):
    (segment,) = [path for path in data.glob("segment-*") if path.read_bytes()[:4] == b"BOWF"]
    for position, length, first in every_frame(data)[kind]:
        for at in (0, 8, 24, 44, 60, 70, length - 1):
            stored.damage(segment, position + at)
            (finding,) = verified(data)
            assert (finding.kind, finding.first_offset, finding.damaged) == (kind, first, True)
            stored.damage(segment, position + at)
    assert verified(data) == []


def test_what_is_damaged_is_printed_and_the_exit_code_says_so(data: Path):
    (segment,) = [path for path in data.glob("segment-*") if path.read_bytes()[:4] == b"BOWF"]
    position = next(position for position, _, first in every_frame(data)["page"] if first == 12)
    stored.damage(segment, position + 100)
    done = stored.command("inspect", str(data), "--verify")
    assert done.returncode == 5
    (finding,) = objects(done.stdout)
    assert (finding["topic"], finding["partition"], finding["first_offset"], finding["last_offset"]) == ("orders", 0, 12, 21)
    assert "1 thing is damaged" in done.stderr
    assert "orders/0@12..21" in stored.command("inspect", str(data), "--verify", "-o", "table").stdout
