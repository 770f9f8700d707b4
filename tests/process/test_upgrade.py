"""A directory that an earlier release has written is opened, served, sealed and goes on; and that release does not take it back."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import bowstring
from bowstring.catalog.sqlite import file, queries
from tests.process import stored
from tests.process.test_inspect import verified

ARCHIVES = sorted(Path(__file__).with_name("fixtures").glob("data-*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "data", json.loads((tmp_path / "expected.json").read_text())


def everything(running: bowstring.Broker, topics: set[str]) -> dict[tuple[str, str], tuple[int, int, bytes, bytes]]:
    """Partition, offset, key and value of every message, by topic and id."""
    found = {}
    with running.connect() as client:
        for topic in topics:
            for message in client.reader(topic, end="latest"):
                assert message.attributes["id"] == message.id
                found[topic, message.id] = (message.partition, message.offset, message.key, message.value)
    return found


def expected(told: dict[str, Any]) -> dict[tuple[str, str], tuple[int, int, bytes, bytes]]:
    return {
        (each["topic"], each["id"]): (each["partition"], each["offset"], each["key"].encode(), base64.b64decode(each["value"]))
        for each in told["stored"]
    }


def repeat_all(running: bowstring.Broker, told: dict[str, Any]) -> None:
    """Everything is published once more, and recognised."""
    with running.connect() as client:
        for topic in {each["topic"] for each in told["stored"]}:
            with client.producer(topic) as producer:
                sent = [
                    (each, producer.send(b"again", id=each["id"], key=each["key"]))
                    for each in told["stored"]
                    if each["topic"] == topic and each.get("recognised", True)
                ]
                for each, receipt in sent:
                    answer = receipt.result(30)
                    assert (answer.partition, answer.offset, answer.duplicate) == (each["partition"], each["offset"], True)


def rest_is_there(running: bowstring.Broker, told: dict[str, Any]) -> None:
    """Positions are where they were, and what was deleted is known by its id and not delivered."""
    with running.connect() as client:
        found = [
            {"name": position.name, "topic": position.topic, "offsets": {str(p): offset for p, offset in position.offsets.items()}}
            for position in client.positions()
        ]
        assert found == told.get("positions", [])
        for deleted in told.get("deleted", []):
            with client.producer(deleted["topic"]) as producer:
                assert producer.send(b"again", id=deleted["id"], key=deleted["key"]).result(30).duplicate


def test_an_old_directory_is_inspected_without_being_changed(old):
    data, told = old
    before = stored.snapshot(data)
    assert verified(data) == []
    (overview,) = [json.loads(line) for line in stored.command("inspect", str(data)).stdout.splitlines()]
    assert overview["format"] == told.get("format", 1)
    assert sum(topic["messages"] for topic in overview["topics"]) == len(told["stored"])
    assert [journal["broker"] for journal in overview["journals"]] == [1]
    assert stored.snapshot(data) == before


def test_an_old_directory_is_served_deduplicated_sealed_and_served_again(old):
    data, told = old
    topics = {each["topic"] for each in told["stored"]}
    wanted = expected(told)
    with stored.broker(data) as running:
        assert everything(running, topics) == wanted
        repeat_all(running, told)
        rest_is_there(running, told)
        stored.seal(running)
        assert everything(running, topics) == wanted
        repeat_all(running, told)
        rest_is_there(running, told)
    assert verified(data) == []
    with stored.broker(data) as running:
        assert everything(running, topics) == wanted
        repeat_all(running, told)
        rest_is_there(running, told)
        with running.connect() as client:
            assert {topic.name for topic in client.topics()} == topics
            for refused in told["refused"]:
                with client.producer(refused["topic"]) as producer:
                    assert not producer.send(b"now", id=refused["id"], key="k", attributes={"id": refused["id"]}).result(30).duplicate
    assert stored.contents(data).format == len(queries.migrations())


def test_an_old_directory_gets_subscriptions(old):
    """Its messages were published before there were any. They are at rest, and loaded again. Those
    that are due in a hundred years do not come.
    """
    data, told = old
    wanted = {(each["topic"], each["partition"], each["offset"]) for each in told["stored"]}
    with stored.broker(data) as running, running.connect() as client:
        topics = [topic.name for topic in client.topics()]
        for topic in topics:
            assert client.create_subscription(topic, "billing").backlog == sum(each["topic"] == topic for each in told["stored"])
        stored.seal(running)
    assert verified(data) == []
    found: set[tuple[str, int, int]] = set()
    with stored.broker(data) as running, running.connect() as client:
        for topic in topics:
            scheduled = {(topic, message.partition, message.offset) for message in client.reader(topic, end="latest") if message.due}
            wanted -= scheduled
            with client.consumer(topic, "billing", credit=1000) as consumer:
                backlog = client.subscription(topic, "billing").backlog
                for _, message in zip(range(backlog - len(scheduled)), consumer, strict=False):
                    found.add((topic, message.partition, message.offset))
                    message.ack()
    assert found == wanted
    assert verified(data) == []


def test_an_old_directory_is_backed_up_as_it_is_and_restored(old, tmp_path: Path):
    data, told = old
    for command in (("backup", str(data), str(tmp_path / "backup")), ("restore", str(tmp_path / "backup"), str(tmp_path / "again"))):
        done = stored.command(*command)
        assert done.returncode == 0, done.stderr
    with stored.broker(tmp_path / "again") as running:
        assert everything(running, {each["topic"] for each in told["stored"]}) == expected(told)
        rest_is_there(running, told)


def test_damage_in_an_old_catalog_is_still_damage_when_it_was_brought_up(old):
    data, told = old
    if told.get("format", 1) < 2:
        pytest.skip("the first format has only a journal")
    stored.catalog(data, "UPDATE extent SET expires = 7 WHERE topic = 1 AND partition = 0 AND first_offset > 1")
    if told["format"] == 2:
        stored.catalog(data, "UPDATE snapshot SET state = x'00' WHERE topic = 2")
        stored.catalog(data, "UPDATE chunk SET bitmaps = x'00' WHERE topic = 1 AND partition = 1")
    else:
        stored.catalog(data, "UPDATE state SET state = x'00' WHERE topic = 2 AND machine = 'partition'")
        stored.catalog(data, "UPDATE state SET state = x'00' WHERE topic = 1 AND partition = 1 AND machine = 'deletions'")
    before = {(finding.kind, finding.where) for finding in verified(data)}
    assert {kind for kind, _ in before} >= {"extent", "snapshot", "deletions"}
    with pytest.raises(bowstring.Corrupt), stored.broker(data):
        pass
    assert {(finding.kind, finding.where) for finding in verified(data)} == before


def test_the_release_before_refuses_the_directory_and_says_both_formats(old, monkeypatch: pytest.MonkeyPatch):
    data, _ = old
    with stored.broker(data):
        pass
    monkeypatch.setattr(file, "migrations", lambda: queries.migrations()[:1])
    before = stored.snapshot(data)
    with pytest.raises(bowstring.NotSupported, match=r"has catalog format \d+; this software reads the formats up to 1\.") as refusal:
        bowstring.Broker(data=data).start()
    assert refusal.value.details == {"format": str(len(queries.migrations())), "format_max": "1"}
    after = stored.snapshot(data)
    assert {name for name in before if after[name] != before[name]} <= {"lock"}
