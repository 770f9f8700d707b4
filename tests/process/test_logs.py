"""What `bowstring serve` tells on stderr, each event provoked; and what an embedded broker tells the program around it."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring import errors
from bowstring.ports.events import EVENTS
from bowstring.ports.transport import Channel
from bowstring.wire.native_client import NativeDialer
from tests.process import stored
from tests.process import wire_calls as wire
from tests.process.serving import run, serving
from tests.process.test_damage import place_of, segment_of

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) +\S.*")


def about(log: str, event: str) -> list[str]:
    """The lines that tell of this event."""
    return [line for line in log.splitlines() if f" {EVENTS[event].message}" in line]


def objects(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


def test_a_broker_tells_its_start_its_topics_and_its_end_in_a_line_each(tmp_path: Path):
    data = tmp_path / "data"
    with serving("--data", str(data)) as served:
        with bowstring.connect(served.address) as client:
            client.create_topic("orders", partitions=3)
            client.create_topic("orders", exists_ok=True)
            client.alter_topic("orders", retention=3600)
            client.create_topic("clicks")
            with client.producer("clicks") as producer:
                producer.send(b"x")
            client.delete_topic("clicks")
            client.delete_topic("clicks", missing_ok=True)
        code, log = served.end()
    assert code == 0
    assert all(LINE.fullmatch(line) for line in log.splitlines())
    started, created, altered, second, deleted, stopped = log.splitlines()
    assert re.search(
        rf" INFO    the broker serves version=\S+ address={served.address} data={re.escape(str(data))} topics=0 partitions=0 messages=0"
        r" loading_seconds=\d+\.\d+$",
        started,
    )
    by = r" client=127\.0\.0\.1:\d+$"
    settings = "retention=7d deduplication=10m retention_bytes=none"
    assert re.search(rf" a topic was created topic=orders partitions=3 {settings}{by}", created)
    assert re.search(rf" a topic was altered topic=orders retention=1h deduplication=10m retention_bytes=none{by}", altered)
    assert " a topic was created topic=clicks" in second
    assert re.search(rf" a topic was deleted topic=clicks messages=1{by}", deleted)
    assert stopped.endswith(f" INFO    the broker has stopped reason=SIGTERM address={served.address}")
    with serving("--data", str(data)) as served:
        assert " topics=1 partitions=3 messages=0 " in about(served.end()[1], "broker-started")[0]


@pytest.mark.parametrize("form", ["flag", "variable", "file"])
def test_json_lines_with_a_setting(tmp_path: Path, form: str):
    (tmp_path / "bowstring.toml").write_text('[log]\nformat = "json"\n' if form == "file" else "")
    arguments = ["--log-format", "json"] if form == "flag" else []
    variables = {"BOWSTRING_LOG_FORMAT": "json"} if form == "variable" else {}
    with serving("--data", str(tmp_path), "--config", str(tmp_path / "bowstring.toml"), *arguments, variables=variables) as served:
        with bowstring.connect(served.address) as client:
            client.create_topic("orders")
        started, created, stopped = objects(served.end()[1])
    assert (started["event"], started["level"], started["address"]) == ("broker-started", "info", served.address)
    assert (created["event"], created["topic"], created["retention"]) == ("topic-created", "orders", 7 * 86400.0)
    assert (stopped["event"], stopped["reason"]) == ("broker-stopped", "SIGTERM")


def test_an_error_at_the_start_is_json_too(tmp_path: Path):
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database at all" * 1000)
    done = run("serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0", "--log-format", "json")
    assert done.returncode == 5
    assert objects(done.stderr)[-1]["error"] == "corrupt"


def test_how_much_is_told_is_for_the_user_to_say(tmp_path: Path):
    with serving("--data", str(tmp_path), "--verbose") as served:
        with bowstring.connect(served.address, name="billing") as client, client.producer("missing") as producer:
            receipt = producer.send(b"x", timeout=5)
            with pytest.raises(errors.TopicNotFound):
                receipt.result(30)
        log = served.end()[1]
    assert re.search(r" DEBUG +a client has said hello client=127\.0\.0\.1:\d+ name=billing software=bowstring-python/", log)
    assert "a stream was opened call=Publish" in log
    assert "a stream has ended call=Publish" in log
    assert re.search(r"a call was refused call=Publish .* problem=\"there is no topic 'missing'", log)
    with serving("--data", str(tmp_path), "--quiet") as served:
        assert served.end() == (0, "")


@pytest.mark.parametrize(("listen", "warned"), [("0.0.0.0:0", True), ("[::]:0", True), ("127.0.0.1:0", False), ("localhost:0", False)])
def test_an_address_that_others_reach_is_warned_about_once(tmp_path: Path, listen: str, warned: bool):
    with serving("--data", str(tmp_path), "--listen", listen) as served:
        lines = about(served.end()[1], "open-to-all")
    assert len(lines) == warned
    assert all(" WARNING anyone who reaches this address can read and write: there is no login address=" in line for line in lines)


def test_a_process_with_few_files_is_warned_about(tmp_path: Path):
    with serving("--data", str(tmp_path), "--connections-max", "1000000") as served:
        assert " streams=1000000" in about(served.end()[1], "few-open-files")[0]


@pytest.mark.parametrize("limit", ["connections.max", "connection.streams-max"])
async def test_clients_that_a_limit_refuses_are_told_at_once_and_then_counted(tmp_path: Path, limit: str):
    with serving("--data", str(tmp_path), "--" + limit.replace(".", "-"), "1") as served:
        channel = NativeDialer().dial(served.address)
        await wire.create(channel, "orders")
        first = await wire.open_publish(channel, "orders")
        await wire.publish(first, 1, [b"a"])
        for _ in range(5):
            await wire.refused(read_one(channel), errors.Unavailable, re.escape(limit))
        await channel.close()
        told = about(served.end()[1], "client-refused")
    assert re.search(rf" WARNING a client was refused by a limit limit={limit} streams=1 client=127\.0\.0\.1:\d+$", told[0])
    assert told[1].endswith(f" limit={limit} again=4")
    assert len(told) == 2


async def read_one(channel: Channel) -> object:
    return await (await wire.open_fetch(channel, "orders", (0, 1, 0))).read()


def test_damaged_pages_are_told_at_once_and_then_counted(tmp_path: Path):
    held = stored.store(tmp_path / "data")
    stored.damage(segment_of(held.data), place_of(held.data, "page", 12) + 200)
    with serving("--data", str(held.data), "--upkeep-seconds", "1d") as served:
        with bowstring.connect(served.address) as client:
            for _ in range(3):
                with pytest.raises(errors.Corrupt):
                    list(client.reader("orders", start={0: 12}, end="latest"))
        told = about(served.end()[1], "page-damaged")
    assert re.search(r' ERROR +stored bytes are damaged, and are not served topic=orders partition=0 problem="offsets 12 to', told[0])
    assert told[1].endswith(" topic=orders partition=0 again=2")
    assert len(told) == 2


# An embedded broker


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.event for record in caplog.records if hasattr(record, "event")]


def test_an_embedded_broker_tells_the_log_of_its_program_and_installs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    handlers = list(logging.root.handlers), list(logging.getLogger("bowstring").handlers)
    with caplog.at_level(logging.INFO, "bowstring"), bowstring.Broker(tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
    assert events(caplog) == ["broker-started", "topic-created", "broker-stopped"]
    made = caplog.records[1]
    assert (made.name, made.getMessage(), made.fields["topic"]) == ("bowstring.broker", "a topic was created", "orders")
    assert caplog.records[-1].fields["reason"] == "stop()"
    assert (list(logging.root.handlers), list(logging.getLogger("bowstring").handlers)) == handlers


def test_another_incarnation_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "bowstring"), bowstring.Broker(tmp_path) as broker, broker.connect() as client:
        client.create_topic("orders")
        catalog = broker._broker._server.broker._catalog
        broker._thread.run(catalog.register(1))
        with client.producer("orders") as producer:
            assert producer.send(b"x").result(60).offset == 1
    told = events(caplog)
    assert told[2:4] == ["fenced", "loaded-again"]
    assert told.count("fenced") == 1


def test_a_manual_clock_tells_counts_after_a_minute(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    held = stored.store(tmp_path / "made")
    data = Path(shutil.copytree(held.data, tmp_path / "data"))
    stored.damage(segment_of(data), place_of(data, "page", 12) + 200)
    with caplog.at_level(logging.ERROR, "bowstring"), bowstring.Broker(data, clock="manual", upkeep_seconds="1d") as broker:
        for _ in range(4):
            assert stored.read(broker, "orders", 0, 12).error is not None
        assert events(caplog) == ["page-damaged"]
        broker.clock.advance(61)
        assert [record.fields.get("again") for record in caplog.records] == [None, 3]
        assert stored.read(broker, "orders", 0, 12).error is not None
        broker.clock.advance(61)
    assert [record.fields.get("again") for record in caplog.records] == [None, 3, 1]
