"""A broker on a file system that is really full. It takes a small one of its own, so this has to be allowed to mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import bowstring
from bowstring import errors
from tests.process.serving import serving

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


def test_a_full_disk_refuses_what_is_sent_serves_what_is_there_and_goes_on_when_there_is_room(small_disk: Path):
    with serving("--data", str(small_disk / "data")) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders", partitions=2)
        with client.producer("orders", timeout=2) as producer:
            stored, error = _fill(producer)
            assert isinstance(error, errors.Full)
            assert sum(len(batch) for batch in client.reader("orders", end="latest").batches()) == stored
            client.alter_topic("orders", retention=timedelta(seconds=1), deduplication=timedelta(seconds=1))
            assert producer.send(b"when there is room again", timeout=60).result(70).offset > 1
