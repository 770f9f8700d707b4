"""Damaged directories, on real files and with a real broker: what is intact is served, what is not is `Corrupt` with its offsets, and
nothing is deleted. Where a broker does not start any more, `bowstring inspect --repair` makes it start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import bowstring
from bowstring.catalog.sqlite.repair import Mend
from bowstring.inspection import repair as repair_module
from bowstring.inspection.repair import repair
from tests.process import stored
from tests.process.house import House
from tests.process.test_inspect import every_frame, verified

NOW = 1_900_000_000_000_000


made = stored.made
held = stored.held


def segment_of(data: Path) -> Path:
    (segment,) = [path for path in data.glob("segment-*") if path.read_bytes()[:4] == b"BOWF"]
    return segment


def place_of(data: Path, kind: str, first: int) -> int:
    return next(position for position, _, offset in every_frame(data)[kind] if offset == first)


def corrupt_at(running: bowstring.Broker, first: int, last: int, begin: int | None = None) -> None:
    """A reader of `orders` from there gets nothing but an error that names the offsets."""
    part = stored.read(running, "orders", 0, first if begin is None else begin)
    assert part.values == []
    assert isinstance(part.error, bowstring.Corrupt)
    assert f"offsets {first} to {last}" in str(part.error)
    assert "orders/0" in str(part.error)


def served(running: bowstring.Broker, held: stored.Stored, first: int, end: int) -> None:
    """These offsets of `orders` are served, up to an error or the end."""
    part = stored.read(running, "orders", 0, first)
    assert part.values[: end - first] == held.values["orders", 0][first - 1 : end - 1]


def others_are_whole(running: bowstring.Broker, held: stored.Stored) -> None:
    for partition in (0, 1):
        assert stored.read(running, "clicks", partition) == (held.values["clicks", partition], None)


# What a broker lives with


def corrupt_only_at(held: stored.Stored, first: int, last: int) -> None:
    """A broker starts, and serves all but these offsets."""
    with stored.broker(held.data) as running:
        served(running, held, 1, first)
        corrupt_at(running, first, last)
        served(running, held, last + 1, 27)
        others_are_whole(running, held)


def test_a_damaged_page_is_corrupt_and_the_others_are_served(held: stored.Stored):
    stored.damage(segment_of(held.data), place_of(held.data, "page", 12) + 200)
    corrupt_only_at(held, 12, 21)
    assert repair(str(held.data), now=NOW) == []


def test_a_damaged_index_is_corrupt_with_all_its_offsets(held: stored.Stored):
    stored.damage(segment_of(held.data), place_of(held.data, "index", 12) + 70)
    corrupt_only_at(held, 12, 22)


def test_a_damaged_index_does_not_hold_retention_up_and_is_kept_itself(held: stored.Stored):
    stored.damage(segment_of(held.data), place_of(held.data, "index", 12) + 70)
    with stored.broker(held.data) as running:
        with running.connect() as client:
            client.alter_topic("orders", retention=0.001, deduplication=0)
        stored.retain(running)
        assert stored.read(running, "orders", 0, 27) == ([], None)
        corrupt_at(running, 12, 22, begin=0)
        with running.connect() as client:
            client.alter_topic("orders", retention_bytes=1)
        stored.retain(running)
        assert stored.read(running, "orders", 0, 0) == ([], None)


def test_damaged_ids_refuse_publishes_that_might_repeat_and_readers_see_all(held: stored.Stored):
    for position, _, _ in every_frame(held.data)["ids"]:
        stored.damage(segment_of(held.data), position + 70)
    with stored.broker(held.data) as running:
        assert stored.read_all(running, held) == held.values
        with running.connect() as client, pytest.raises(bowstring.Error), client.producer("orders", timeout=3) as producer:
            producer.send(b"again", id="o1-1").result(10)
        assert stored.read_all(running, held) == held.values


@pytest.mark.parametrize("how", ["missing", "truncated", "foreign"])
def test_a_segment_that_is_not_what_it_was(held: stored.Stored, how: str):
    segment = segment_of(held.data)
    cut = place_of(held.data, "page", 12)
    if how == "missing":
        segment.unlink()
    elif how == "truncated":
        os.truncate(segment, cut)
    else:
        segment.write_bytes(os.urandom(segment.stat().st_size))
    before = stored.snapshot(held.data)
    found = verified(held.data)
    assert {(finding.topic, finding.first_offset) for finding in found if finding.damaged} >= {("orders", 12)}
    with stored.broker(held.data) as running:
        if how == "truncated":
            served(running, held, 1, 12)
        else:
            corrupt_at(running, 1, 11)
        corrupt_at(running, 12, 22)
        served(running, held, 23, 26)
        corrupt_at(running, 26, 26)
    after = stored.snapshot(held.data)
    assert all(after[name] == before[name] for name in before if name.startswith("segment-") and name == segment.name)


# What it does not start with, until it is repaired


def refused(held: stored.Stored, match: str) -> None:
    """A broker does not start, and nothing is touched by it."""
    segments = {name: value for name, value in stored.snapshot(held.data).items() if name.startswith("segment-")}
    with pytest.raises(bowstring.Corrupt, match=match), stored.broker(held.data):
        pass
    assert {name: value for name, value in stored.snapshot(held.data).items() if name.startswith("segment-")} == segments


def repaired(held: stored.Stored, *wheres: str) -> None:
    """It is repaired, which is told, and keeps what it replaced."""
    before = stored.catalog(held.data, "SELECT count(*) FROM journal")
    assert {step.where for step in repair(str(held.data), now=NOW)} == set(wheres)
    (kept,) = (held.data / "quarantine").iterdir()
    assert stored.catalog(kept, "SELECT count(*) FROM journal") == before
    assert [finding for finding in verified(held.data) if finding.damaged] == []
    assert repair(str(held.data), now=NOW) == []


def refused_until_repaired(held: stored.Stored, match: str, where: str) -> None:
    refused(held, match)
    repaired(held, where)


def nothing_is_lost(held: stored.Stored) -> None:
    with stored.broker(held.data) as running:
        assert stored.read_all(running, held) == held.values


def test_the_catalog_that_a_repair_puts_aside_is_synced_before_the_other_is_changed(held: stored.Stored, monkeypatch: pytest.MonkeyPatch):
    (last,) = stored.catalog(held.data, "SELECT max(position) FROM journal")[0]
    stored.catalog(held.data, "UPDATE journal SET changes = x'c0ffee' WHERE position = ?", last)
    fsync, mend = os.fsync, repair_module.mend
    done: list[str] = []

    def noted(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def mended(path: str, change: Mend) -> None:
        done.append("mended")
        mend(path, change)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(repair_module, "mend", mended)
    repair(str(held.data), now=NOW)
    (kept,) = (held.data / "quarantine").iterdir()
    assert str(kept / "catalog.sqlite") in done[: done.index("mended")]


def test_a_damaged_row_of_the_journal_is_made_anew_from_its_pages(held: stored.Stored):
    (last,) = stored.catalog(held.data, "SELECT max(position) FROM journal")[0]
    for sequence in (last, last - 2):
        stored.catalog(held.data, "UPDATE journal SET changes = x'c0ffee' WHERE position = ?", sequence)
    refused(held, f"journal row {last - 2}")
    repaired(held, "orders/0@24", "orders/0@26")
    with stored.broker(held.data) as running:
        assert stored.read_all(running, held) == held.values
        stored.seal(running)
        assert stored.read_all(running, held) == held.values


def test_a_row_that_is_gone_with_its_pages_leaves_offsets_that_are_corrupt(held: stored.Stored):
    (last,) = stored.catalog(held.data, "SELECT max(position) FROM journal")[0]
    stored.catalog(held.data, "DELETE FROM journal WHERE position = ?", last - 2)
    refused(held, f"journal row {last - 2} is missing")
    repaired(held, "orders/0@24")
    for _ in range(2):
        with stored.broker(held.data) as running:
            served(running, held, 1, 24)
            corrupt_at(running, 24, 24)
            served(running, held, 25, 27)
            others_are_whole(running, held)
            stored.seal(running)


def test_a_damaged_extent_is_made_anew_from_its_index(held: stored.Stored):
    stored.catalog(held.data, "UPDATE extent SET bytes = bytes + 1 WHERE topic = 1 AND first_offset = 12")
    refused_until_repaired(held, "offset 12 of topic 1", "orders/0@12..22")
    nothing_is_lost(held)


def test_a_damaged_extent_without_its_index_is_corrupt_and_keeps_its_segments(held: stored.Stored):
    stored.damage(segment_of(held.data), place_of(held.data, "index", 12) + 70)
    stored.catalog(held.data, "UPDATE extent SET expires = 7 WHERE topic = 1 AND first_offset = 12")
    assert {step.where for step in repair(str(held.data), now=NOW)} == {"orders/0@12..22"}
    corrupt_only_at(held, 12, 22)


def test_a_damaged_snapshot_is_made_anew_and_no_offset_is_given_twice(held: stored.Stored):
    stored.catalog(held.data, "UPDATE state SET state = x'00' WHERE topic = 1")
    refused_until_repaired(held, "part 0 of the state 'partition' of topic 1", "orders/0")
    with stored.broker(held.data) as running:
        assert stored.read_all(running, held) == held.values
        with running.connect() as client, client.producer("orders") as producer:
            with pytest.raises(bowstring.Corrupt, match="repeated id"):
                producer.send(b"again", id="o1-1").result(10)
            assert producer.send(b"new").result(10).offset == 27


def test_deletions_that_cannot_be_read_are_put_aside(held: stored.Stored):
    stored.catalog(held.data, "INSERT INTO state VALUES (1, 0, 'deletions', 1, 1, 5, 8, 77, x'c0ffee')")
    refused_until_repaired(held, "state 'deletions' of topic 1", "orders/0")
    nothing_is_lost(held)


def test_uses_that_do_not_add_up_are_counted_anew(held: stored.Stored):
    before = sorted(stored.catalog(held.data, "SELECT * FROM segment_use"))
    stored.catalog(held.data, "UPDATE segment_use SET bytes = bytes + 1 WHERE topic = 1 AND first_offset = 12")
    refused_until_repaired(held, "does not add up|do not add up", "catalog")
    assert sorted(stored.catalog(held.data, "SELECT * FROM segment_use")) == before
    nothing_is_lost(held)


def test_orphans_are_moved_and_not_deleted(held: stored.Stored):
    orphan = held.data / "orphan-0000000001000077-1700000000"
    orphan.write_bytes(b"somebody's")
    done = stored.command("inspect", str(held.data), "--repair")
    assert done.returncode == 0
    assert not orphan.exists()
    (kept,) = (held.data / "quarantine").glob("*/orphan-*")
    assert kept.read_bytes() == b"somebody's"
    with stored.broker(held.data) as running:
        assert stored.read_all(running, held) == held.values
    assert kept.exists()


# What nobody can repair


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no database at all" * 100),
        lambda path: os.truncate(path, 5000),
        lambda path: path.unlink(),
    ],
    ids=["foreign", "truncated", "missing"],
)
def test_a_directory_without_a_good_catalog_is_refused_and_left_alone(held: stored.Stored, spoil: Callable[[Path], None]):
    spoil(held.data / "catalog.sqlite")
    before = {name: value for name, value in stored.snapshot(held.data).items() if name != "lock"}
    with pytest.raises(bowstring.Corrupt), stored.broker(held.data):
        pass
    for flags in ((), ("--verify",), ("--repair",)):
        done = stored.command("inspect", str(held.data), *flags)
        assert done.returncode == 5, done
        assert len(done.stderr.splitlines()) == 1
    after = {name: value for name, value in stored.snapshot(held.data).items() if name != "lock" and not name.endswith(("-wal", "-shm"))}
    assert {name: value[0] for name, value in after.items()} == {name: value[0] for name, value in before.items()}


def test_a_later_format_is_refused_with_both_formats_by_broker_and_inspect(held: stored.Stored):
    stored.catalog(held.data, "PRAGMA user_version = 99")
    before = (held.data / "catalog.sqlite").read_bytes()
    with (
        pytest.raises(bowstring.NotSupported, match=r"format 99; this software reads the formats up to \d+") as refusal,
        stored.broker(held.data),
    ):
        pass
    assert refusal.value.details["format"] == "99"
    for flags in ((), ("--verify",), ("--repair",)):
        done = stored.command("inspect", str(held.data), *flags)
        assert done.returncode == 1
        assert "format 99" in done.stderr
    assert (held.data / "catalog.sqlite").read_bytes() == before


def test_a_directory_that_vanishes_under_a_broker_loses_no_acknowledgement(held: stored.Stored):
    """What cannot be stored is not acknowledged; what was is found again when the directory comes back."""
    away = held.data.with_name("away")
    acknowledged: stored.Values = {}
    running = bowstring.Broker(data=held.data, **stored.SETTINGS)
    running.start()
    try:
        held.data.rename(away)
        with pytest.raises(bowstring.Error):
            stored.publish(running, "orders", ((f"away-{n}", b"%d" % n * stored.LARGE) for n in range(1000)), acknowledged, timeout=2)
    finally:
        running.stop()
    away.rename(held.data)
    with stored.broker(held.data) as again:
        found = stored.read(again, "orders", 0)
    assert found.error is None
    wanted = held.values["orders", 0] + acknowledged.get(("orders", 0), [])
    assert found.values[: len(wanted)] == wanted


async def test_due_times_that_no_one_can_read_do_not_hold_up_a_queue(tmp_path: Path):
    """The index of the extent is damaged, and its due times too. Its messages are set aside, others come."""
    house = House(tmp_path / "data")
    await house.start()
    async with house.client() as client:
        await client.create_topic("orders")
        await client.create_subscription("orders", "billing")
        async with client.producer("orders") as producer:
            for number in range(20):
                producer.send(f"late {number}", delay=3600)
    await house.seal()
    await house.stop()
    frames = every_frame(house.data)
    for position, length, _ in frames["index"] + frames["ids"]:
        stored.damage(segment_of(house.data), position + length - 1)
    await house.start()
    async with house.client() as client:
        async with client.producer("orders") as producer:
            await producer.send("now")
        async with client.consumer("orders", "billing", credit=100) as consumer:
            async for message in consumer:
                assert message.text() == "now"
                await message.ack()
                break
        assert house.live.surroundings.counters.queue.aside["damaged"] == 20
    await house.stop()
