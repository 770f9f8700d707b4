"""Topics, compression and figures, over real sockets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa
import pytest

import bowstring
import bowstring.aio
from bowstring import errors


@pytest.fixture
def broker() -> Iterator[bowstring.Broker]:
    with bowstring.Broker.ephemeral() as running:
        yield running


@pytest.fixture
def client(broker: bowstring.Broker) -> Iterator[bowstring.Client]:
    with broker.connect(name="tests") as connected:
        yield connected


def test_topics_are_listed_with_counts_page_by_page_by_a_glob_of_the_broker(client: bowstring.Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bowstring.client.topics.PAGE_TOPICS", 3)
    names = [f"orders.{number:02}" for number in range(10)] + ["Orders", "billing", "order-s"]
    for at, name in enumerate(names):
        client.create_topic(name, partitions=1 + at % 3)
    with client.producer("orders.03") as producer:
        producer.send_batch([b"a", b"b", b"c"])
    assert [topic.name for topic in client.topics()] == sorted(names)
    assert {topic.name: topic.messages for topic in client.topics("orders.*")} == {
        name: 3 if name == "orders.03" else 0 for name in names if name.startswith("orders.")
    }
    for pattern, expected in [("orders.0[12]", 2), ("order?s", 1), ("?rders*", 11), ("*", 13), ("none*", 0), ("billing", 1), ("[", 0)]:
        assert len(list(client.topics(pattern))) == expected, pattern


async def test_the_same_for_asyncio(broker: bowstring.Broker):
    async with bowstring.aio.connect(broker.address) as client:
        for name in ("a", "b", "c"):
            await client.create_topic(name)
        assert [topic.name async for topic in client.topics("[ab]")] == ["a", "b"]


def test_a_topic_is_altered_where_that_can_be(client: bowstring.Client):
    made = client.create_topic("orders", retention=timedelta(days=1), retention_bytes=10**9)
    altered = client.alter_topic("orders", retention=7200)
    assert (altered.retention, altered.retention_bytes, altered.deduplication) == (timedelta(hours=2), 10**9, made.deduplication)
    assert client.alter_topic("orders", retention_bytes=None).retention_bytes is None
    for fixed in ({"partitions": 2}, {"payload": "reference"}, {"audited": True}, {"table_retention": 5}):
        with pytest.raises(errors.NotSupported):
            client.alter_topic("orders", **fixed)
    with pytest.raises(errors.TopicNotFound):
        client.alter_topic("nothing", retention=60)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_travels_compressed_comes_back_as_it_was(client: bowstring.Client, compression: str | None):
    client.create_topic("orders", partitions=2)
    values = [b"%d " % number * 50 for number in range(2000)]
    with client.producer("orders", compression=compression) as producer:
        for number, value in enumerate(values[:1000]):
            producer.send(value, key=f"k{number % 5}", attributes={"country": "CH"})
        answers = producer.send_batch(pa.table({"value": values[1000:], "key": [f"k{number % 5}" for number in range(1000)]})).result(60)
        assert answers.ok.true_count == 1000
    read = list(client.reader("orders", end="latest"))
    assert sorted(message.value for message in read) == sorted(values)
    assert sum(message.attributes == {"country": "CH"} for message in read) == 1000
    stored = client.topic("orders").bytes
    assert stored < sum(map(len, values)) / 2 if compression else stored > sum(map(len, values))


def test_answers_tell_every_row(client: bowstring.Client):
    client.create_topic("orders")
    with client.producer("orders") as producer:
        first = producer.send(b"a", id="a").result(60)
        answers = producer.send_batch(pa.table({"value": ["x", "a", "y"], "id": ["x", "a", "y"]})).result(60)
        assert answers.ok.to_pylist() == [True, True, True]
        assert answers.duplicates.to_pylist() == [False, True, False]
        assert answers.offsets.to_pylist() == [2, first.offset, 3]
        assert answers.partitions.to_pylist() == [0, 0, 0]
        assert (answers.refused, len(answers)) == ({}, 3)
        assert repr(answers) == "Answers(topic='orders', rows=3, duplicates=1, refused=0)"
        answers.raise_for_refused()
        client.delete_topic("orders")
        refused = producer.send_batch([b"p", b"q"]).result(60)
        assert refused.ok.to_pylist() == refused.duplicates.to_pylist() == [False, False]
        assert refused.offsets.null_count == 2
        assert {row: type(error) for row, error in refused.refused.items()} == {0: errors.TopicNotFound, 1: errors.TopicNotFound}
        with pytest.raises(errors.PartlyRefused, match="2 of 2 messages were refused") as caught:
            refused.raise_for_refused()
        assert caught.value.answers is refused


def test_figures_are_frozen_values(broker: bowstring.Broker, client: bowstring.Client):
    client.create_topic("orders")
    with client.producer("orders") as producer, client.reader("orders") as reader:
        producer.send_batch([b"a", b"b"]).result(60)
        assert len(reader.poll(60)) == 2
        figures = [client.statistics(), producer.statistics(), reader.statistics()]
        assert (figures[0].producers, figures[0].readers) == (1, 1)
        assert (figures[1].messages, figures[1].batches, figures[1].refused, figures[1].bytes_under_way) == (2, 1, 0, 0)
        assert (figures[2].messages, figures[2].batches) == (2, 1)
        for figure in figures:
            name = dataclasses.fields(figure)[0].name
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(figure, name, 7)
    assert broker.statistics().messages == 2
    with pytest.raises(AttributeError):
        broker.statistics().messages = 7
    assert (client.statistics().producers, client.statistics().readers) == (0, 0)


def test_info_tells_who_is_there(broker: bowstring.Broker, client: bowstring.Client):
    info = client.info
    (other,) = info.brokers
    assert f"bowstring://{other.address}" == broker.address
    assert other.software.startswith("bowstring/")
    assert (other.protocol, other.incarnation) == (1, 1)
    assert len(bytes.fromhex(info.cluster)) == 16
    assert abs(info.drift) < 60, "the same machine"
    assert client.name == "tests"


def test_a_context_names_the_server(broker: bowstring.Broker, tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bowstring").mkdir()
    (tmp_path / "bowstring" / "contexts.toml").write_text(f'[contexts.shop]\nserver = "{broker.address}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in ("BOWSTRING_SERVER", "BOWSTRING_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    with bowstring.connect(context="shop") as client:
        assert f"bowstring://{client.info.brokers[0].address}" == broker.address
    monkeypatch.setenv("BOWSTRING_CONTEXT", "shop")
    with bowstring.connect() as client:
        client.create_topic("orders")
    with pytest.raises(errors.NotFound, match=r"there is no context 'shp'\. There is 'shop'\."):
        bowstring.connect(context="shp")
    monkeypatch.setenv("BOWSTRING_SERVER", broker.address)
    monkeypatch.setenv("BOWSTRING_CONTEXT", "shp")
    with bowstring.connect() as client:
        assert [topic.name for topic in client.topics()] == ["orders"]
