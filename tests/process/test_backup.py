"""Backups of a broker that serves, and of directories that no broker serves; restoring them; and
what can go wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
from pathlib import Path

import google_crc32c
import pyarrow as pa
import pytest

import bowstring
from bowstring.backup import making, restoring
from bowstring.backup.manifest import NAME
from bowstring.client.backup import back_up
from bowstring.inspection.directory import DataDirectory
from bowstring.store.segments import epoch_of
from tests.process import stored
from tests.process.serving import serving
from tests.process.test_inspect import verified

made = stored.made
held = stored.held


def back_up_to(held: stored.Stored, target: Path) -> dict:
    done = stored.command("backup", str(held.data), str(target))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def restore_to(backup: Path, data: Path) -> dict:
    done = stored.command("restore", str(backup), str(data))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("is_served", [True, False], ids=["served", "offline"])
def test_a_backup_restored_has_every_message_and_recognises_repeated_ones(held: stored.Stored, tmp_path: Path, is_served: bool):
    if is_served:
        with stored.broker(held.data):
            told = back_up_to(held, tmp_path / "backup")
    else:
        before = stored.snapshot(held.data)
        told = back_up_to(held, tmp_path / "backup")
        assert stored.snapshot(held.data) == before
    assert told["damaged"] == []
    assert told["segments"] == sum(path.name.startswith("segment-") for path in (tmp_path / "backup").iterdir())
    shutil.rmtree(held.data)
    restore_to(tmp_path / "backup", tmp_path / "again")
    assert verified(tmp_path / "again") == []
    for _ in range(2):
        with stored.broker(tmp_path / "again") as running:
            assert stored.read_all(running, held) == held.values
            with running.connect() as client, client.producer("orders") as producer:
                for id, offset in (("o1-3", 4), ("large2", 22), ("o3-1", 24), ("large3", 26)):
                    answer = producer.send(b"again", id=id).result(30)
                    assert (answer.offset, answer.duplicate) == (offset, True)
            stored.seal(running)


def test_restored_data_has_a_name_of_its_own_and_shares_no_segment_id_with_the_original(held: stored.Stored, tmp_path: Path):
    back_up_to(held, tmp_path / "backup")
    restored = [restore_to(tmp_path / "backup", tmp_path / name) for name in ("one", "two")]
    directories = [held.data, tmp_path / "one", tmp_path / "two"]
    assert len({restored[0]["cluster"], restored[1]["cluster"], restored[0]["cluster_before"]}) == 3
    written: list[set[str]] = []
    for data in directories:
        before = {path.name for path in data.glob("segment-*")}
        with stored.broker(data) as running:
            stored.publish(running, "orders", [("later", os.fsencode(data).ljust(stored.LARGE))], {})
        written.append({path.name for path in data.glob("segment-*")} - before)
    assert all(written)
    assert len(set.union(*written)) == sum(map(len, written))
    epochs = [min(epoch_of(int(name.removeprefix("segment-"), 16)) for name in names) for names in written]
    assert epochs[0] == 2
    assert min(epochs[1:]) > 1_000_000


def test_a_backup_under_load_is_of_one_moment(tmp_path: Path):
    """Producers go on meanwhile. What was acknowledged before is in it, and each partition is in it
    up to some offset without a hole.
    """
    data = tmp_path / "data"
    stop, sent = threading.Event(), {0: 0, 1: 0}
    with bowstring.Broker(data=data, **{**stored.SETTINGS, "upkeep_seconds": 0.01, "seal_seconds": 0.05, "seal_rows": 50}) as running:
        with running.connect() as client:
            client.create_topic("load", partitions=2)

        def publish(partition: int) -> None:
            with running.connect() as client, client.producer("load") as producer:
                key = next(f"k{n}" for n in range(100) if producer.send(b"", key=f"k{n}").result(30).partition == partition)
                while not stop.is_set():
                    size = 10 if sent[partition] % 3 else 5000
                    producer.send_batch(pa.table({"value": [b"%d" % sent[partition] + b"." * size] * 8, "key": [key.encode()] * 8}))
                    producer.flush()
                    sent[partition] += 1

        threads = [threading.Thread(target=publish, args=(partition,)) for partition in sent]
        for thread in threads:
            thread.start()
        before = {}
        for number in range(3):
            before = dict(sent)
            held = stored.Stored(data, {})
            assert back_up_to(held, tmp_path / f"backup-{number}")["damaged"] == []
        stop.set()
        for thread in threads:
            thread.join()
    restore_to(tmp_path / "backup-2", tmp_path / "again")
    assert verified(tmp_path / "again") == []
    with stored.broker(tmp_path / "again") as running:
        for partition, count in before.items():
            part = stored.read(running, "load", partition)
            assert part.error is None
            numbers = [int(value.split(b".")[0]) for value in part.values if value]
            assert numbers == sorted(list(range(len(numbers) // 8)) * 8)
            assert len(numbers) // 8 >= count


def test_a_second_backup_to_the_same_place_is_refused_and_the_first_stays(held: stored.Stored, tmp_path: Path):
    back_up_to(held, tmp_path / "backup")
    before = stored.snapshot(tmp_path / "backup")
    with stored.broker(held.data):
        done = stored.command("backup", str(held.data), str(tmp_path / "backup"))
        assert done.returncode == 1
        assert "is not empty" in done.stderr
    assert stored.command("backup", str(held.data), str(tmp_path / "backup")).returncode == 1
    assert stored.snapshot(tmp_path / "backup") == before


def test_dead_bytes_are_not_in_a_backup(held: stored.Stored, tmp_path: Path):
    with stored.broker(held.data) as running:
        with running.connect() as client:
            client.create_topic("secret")
        stored.publish(running, "secret", [("s", b"do not keep this" * 2000)], {})
        with running.connect() as client:
            client.delete_topic("secret")
        back_up_to(held, tmp_path / "backup")
    assert any(b"do not keep this" in path.read_bytes() for path in held.data.glob("segment-*"))
    assert not any(b"do not keep this" in path.read_bytes() for path in (tmp_path / "backup").glob("segment-*"))


def test_what_is_damaged_is_backed_up_as_it_is_and_told(held: stored.Stored, tmp_path: Path):
    (segment,) = [path for path in held.data.glob("segment-*") if path.read_bytes()[:4] == b"BOWF"]
    stored.damage(segment, 200)
    done = stored.command("backup", str(held.data), str(tmp_path / "backup"))
    assert done.returncode == 5
    assert len(json.loads(done.stdout)["damaged"]) == 1
    restore_to(tmp_path / "backup", tmp_path / "again")
    assert len([finding for finding in verified(tmp_path / "again") if finding.damaged]) == 1


def test_only_a_directory_that_the_caller_may_write_to_is_written_to(held: stored.Stored, tmp_path: Path):
    """A client elsewhere cannot make the broker write to its host."""
    (tmp_path / "victim").mkdir()
    with stored.broker(held.data) as running:
        address = running.address.removeprefix("bowstring://")
        for target, proof in ((tmp_path / "victim", ""), (tmp_path / "victim", "x"), (tmp_path / "missing", "x")):
            with pytest.raises(bowstring.NotAuthorised):
                asyncio.run(back_up(address, str(target), proof, lambda done, total: None))
        with pytest.raises(bowstring.InvalidArgument):
            asyncio.run(back_up(address, "relative", "x", lambda done, total: None))
        proof = making.claim(str(tmp_path / "victim"))
        (tmp_path / "victim" / "precious").write_text("kept")
        with pytest.raises(bowstring.AlreadyExists):
            asyncio.run(back_up(address, str(tmp_path / "victim"), proof, lambda done, total: None))
        assert (tmp_path / "victim" / "precious").read_text() == "kept"
    assert not (tmp_path / "missing").exists()


def test_a_broker_in_memory_has_nothing_to_back_up(tmp_path: Path):
    with bowstring.Broker.ephemeral() as running, pytest.raises(bowstring.NotSupported):
        asyncio.run(back_up(running.address.removeprefix("bowstring://"), str(tmp_path), "x", lambda done, total: None))


def appears(path: Path) -> None:
    while not path.exists():
        pass


async def test_a_broker_that_dies_in_the_middle_leaves_nothing_that_looks_like_a_backup(tmp_path: Path):
    held = stored.store(tmp_path / "data")
    with serving("--data", str(held.data)) as served:
        proof = making.claim(str(tmp_path / "backup"))
        asking = asyncio.create_task(back_up(served.address, str(tmp_path / "backup"), proof, lambda done, total: None))
        await asyncio.to_thread(appears, tmp_path / "backup" / "catalog.sqlite")
        served.process.send_signal(signal.SIGKILL)
        await asyncio.gather(asking, return_exceptions=True)
    whole = (tmp_path / "backup" / NAME).exists()
    done = stored.command("restore", str(tmp_path / "backup"), str(tmp_path / "again"))
    assert (done.returncode == 0) == whole
    if not whole:
        assert "never finished" in done.stderr
        assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("spoil", ["flipped", "truncated", "missing", "manifest", "no manifest", "later"])
def test_a_damaged_backup_is_refused_and_nothing_is_left_behind(held: stored.Stored, tmp_path: Path, spoil: str):
    backup, manifest = tmp_path / "backup", tmp_path / "backup" / NAME
    back_up_to(held, backup)
    segment = next(backup.glob("segment-*"))
    match spoil:
        case "flipped":
            stored.damage(segment, segment.stat().st_size - 1)
        case "truncated":
            os.truncate(segment, segment.stat().st_size - 64)
        case "missing":
            segment.unlink()
        case "manifest":
            manifest.write_text(manifest.read_text().replace('"epoch":1', '"epoch":2'))
        case "no manifest":
            manifest.unlink()
        case _:
            content = manifest.read_text().replace('"format":1,"software"', '"format":9,"software"')
            inner = content[content.index('{"format"') : content.rindex("}")]
            manifest.write_text(f'{{"crc32c":{google_crc32c.value(inner.encode())},"manifest":{inner}}}')
    done = stored.command("restore", str(backup), str(tmp_path / "again"))
    assert done.returncode == {"no manifest": 1, "later": 1}.get(spoil, 5), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "again").exists()


def test_a_directory_with_something_in_it_is_not_restored_to(held: stored.Stored, tmp_path: Path):
    back_up_to(held, tmp_path / "backup")
    before = stored.snapshot(held.data)
    done = stored.command("restore", str(tmp_path / "backup"), str(held.data))
    assert done.returncode == 1
    assert "is not empty" in done.stderr
    assert stored.snapshot(held.data) == before


def test_a_restore_that_was_cut_off_is_not_taken_for_a_data_directory(held: stored.Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    back_up_to(held, tmp_path / "backup")

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(restoring.fresh, "begin_anew", cut)
    monkeypatch.setattr(restoring, "_remove", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        restoring.restore(str(tmp_path / "backup"), str(tmp_path / "again"), progress=lambda done, total: None)
    with pytest.raises(bowstring.Corrupt, match=r"segments but no catalog\.sqlite"), stored.broker(tmp_path / "again"):
        pass
    with pytest.raises(bowstring.Corrupt), DataDirectory(str(tmp_path / "again")):
        pass
