"""A broker on a file system that is really full. It takes a small one of its own, so this has to be allowed to mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
from bowstring import errors
from tests.process.serving import Served, run, serving

SIZE = "80m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(tmp_path)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here: it takes root")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def _fill(producer: bowstring.Producer) -> tuple[int, errors.Error]:
    """How many messages were stored until one was refused, and why that was."""
    for stored in range(0, 1_000_000, 1000):
        answers = producer.send_batch([os.urandom(1000)] * 1000).result(60)
        if answers.refused:
            return stored, answers.refused[0]
    raise AssertionError("it is never full")


def _take_all(place: Path) -> None:
    """No byte is left on the file system."""
    with place.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass


def _told_of_the_disk(served: Served) -> list[str]:
    """The lines of the log that are about the disk, up to the one that there is room again."""
    told: list[str] = []
    assert served.process.stderr is not None
    for line in served.process.stderr:
        if " the disk " in line:
            told.append(line)
        if " room again" in line:
            break
    return told


def test_a_broker_that_cannot_start_on_a_full_disk_says_so_and_starts_when_there_is_room(small_disk: Path):
    data = small_disk / "data"
    with serving("--data", str(data)) as served:
        served.end()
    (data / "reserve").unlink()
    _take_all(small_disk / "others")
    refused = run("serve", "--data", str(data), "--listen", "127.0.0.1:0")
    assert refused.returncode == 3
    assert f"the disk of {data} is full. Free some space, then start again" in refused.stderr
    (small_disk / "others").unlink()
    with serving("--data", str(data)) as served:
        assert served.end()[0] == 0


def test_a_broker_starts_on_a_full_disk_with_its_reserve(small_disk: Path):
    data = small_disk / "data"
    with serving("--data", str(data)) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send(b"before").result(60)
        served.end()
    _take_all(small_disk / "others")
    with serving("--data", str(data)) as served, bowstring.connect(served.address) as client:
        assert [message.value for message in client.reader("orders", end="latest")] == [b"before"]


def test_a_full_disk_refuses_what_is_sent_serves_what_is_there_and_goes_on_when_there_is_room(small_disk: Path):
    with serving("--data", str(small_disk / "data")) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders", partitions=2)
        with client.producer("orders", timeout=2) as producer:
            stored, error = _fill(producer)
            assert isinstance(error, errors.Full)
            assert sum(len(batch) for batch in client.reader("orders", end="latest").batches()) == stored
            client.alter_topic("orders", retention=timedelta(seconds=1), deduplication=timedelta(seconds=1))
            assert producer.send(b"when there is room again", timeout=60).result(70).offset > 1
        told = _told_of_the_disk(served)
        assert " WARNING the disk is full: publishes are refused, reading goes on" in told[0]
        assert " INFO    the disk has room again: publishes are accepted seconds=" in told[1]


def test_a_queue_goes_on_while_the_disk_is_full(small_disk: Path):
    """Granting, settling, extending and ending leases take little room, which publishes leave."""
    with serving("--data", str(small_disk / "data")) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders")
        client.create_subscription("orders", "billing")
        with client.producer("orders", timeout=2) as producer:
            _, error = _fill(producer)
            assert isinstance(error, errors.Full)
            with client.consumer("orders", "billing", name="slow", credit=2, lease=1, alive=lambda: False) as slow:
                kept, lost = (next(iter(slow)) for _ in range(2))
                assert kept.extend(600).result(60) > kept.lease_end - timedelta(seconds=1)
                with client.consumer("orders", "billing", name="busy", credit=1000) as busy:
                    seen: dict[int, int] = {}
                    for message in busy:
                        seen[message.offset] = message.retry_count
                        if message.offset == 5 and not message.retry_count:
                            message.nack().result(60)
                        else:
                            message.ack().result(60)
                        if seen.get(lost.offset) == seen.get(5) == 1 and len(seen) > 1000:
                            break
                with pytest.raises(errors.LeaseLost):
                    lost.ack().result(60)
                kept.ack().result(60)
                assert kept.offset not in seen
            with pytest.raises(errors.Full):
                producer.send(b"refused", timeout=1).result(60)
        left = client.subscription("orders", "billing")
        assert left.backlog > 0
        assert left.leased == 0
