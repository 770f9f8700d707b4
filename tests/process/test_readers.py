"""Readers of the kit against a real broker: filters, columns, several topics, flow by commit, and batches in other people's libraries."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import bowstring
import bowstring.aio
from bowstring import errors
from tests.process import ephemeral

broker = ephemeral.broker
client = ephemeral.client


@pytest.fixture
def topic(client: bowstring.Client, request: pytest.FixtureRequest) -> str:
    """100 messages in 3 partitions: every second from Switzerland, every tenth without anything."""
    name = re.sub(r"[^A-Za-z0-9_]", "-", request.node.name)[:200]
    client.create_topic(name, partitions=3)
    countries = [None if number % 10 == 9 else "CH" if number % 2 else "DE" for number in range(100)]
    given = {
        "value": [b"%d" % number for number in range(100)],
        "key": [None if country is None else f"customer-{number % 7}" for number, country in enumerate(countries)],
        "attributes": pa.array(
            [None if country is None else [("country", country)] for country in countries], pa.map_(pa.utf8(), pa.utf8())
        ),
        "due": pa.array([datetime(2027, 1, 1 + number % 9, tzinfo=UTC) if number % 3 else None for number in range(100)]),
    }
    with client.producer(name) as producer:
        producer.send_batch(pa.table(given)).result(10).raise_for_refused()
    return name


def numbers(reader: bowstring.Reader) -> list[int]:
    return sorted(int(message.value or b"") for message in reader)


FILTERS = [
    ("attributes.country = 'CH'", lambda n: n % 10 != 9 and n % 2 == 1),
    ("attributes['country'] <> 'CH'", lambda n: n % 10 != 9 and n % 2 == 0),
    ("attributes.country is null", lambda n: n % 10 == 9),
    ("attributes.colour is not null", lambda n: False),
    ("key = 'customer-3' or key = 'customer-4'", lambda n: n % 10 != 9 and n % 7 in (3, 4)),
    ("KEY in ('customer-3')", None),
    ("key in ('customer-3', x'637573746f6d65722d34') and attributes.country = 'DE'", lambda n: n % 7 in (3, 4) and n % 2 == 0),
    ("key not in ('customer-3', 'customer-4')", lambda n: n % 10 != 9 and n % 7 not in (3, 4)),
    ("key like 'customer-_' and not key like '%-5'", lambda n: n % 10 != 9 and n % 7 != 5),
    ("due >= '2027-01-05T00:00Z'", lambda n: n % 3 and n % 9 >= 4),
    ("due between '2027-01-02T00:00Z' and '2027-01-03T00:00Z'", lambda n: n % 3 and n % 9 in (1, 2)),
    ("due is null and created > '-1h' and arrived <= '+1h'", lambda n: n % 3 == 0),
    ("arrived < '-1h' or expires is not null", lambda n: False),
    ("created < due", lambda n: n % 3),
]


@pytest.mark.parametrize(("where", "passes"), FILTERS, ids=[where for where, _ in FILTERS])
def test_the_broker_sends_only_what_passes(client: bowstring.Client, where: str, passes, topic: str):
    if passes is None:
        with pytest.raises(errors.InvalidArgument, match="character 1"):
            client.reader(topic, where=where)
        return
    with client.reader(topic, where=where, end="latest", name="me") as reader:
        expected = [number for number in range(100) if passes(number)]
        assert numbers(reader) == expected
        assert reader.position == client.offsets(topic)
        reader.commit()
        assert sum(client.position("me", topic).lag.values()) == 0
        batches = reader.statistics()
    assert batches.messages == len(expected)


def test_a_filter_and_a_range_go_together(client: bowstring.Client, topic: str):
    with client.producer(topic) as producer:
        producer.send(b"100", attributes={"country": "CH"}).result(5)
    every = numbers(client.reader(topic, where="attributes.country = 'CH'", end="latest"))
    assert every == [*(n for n in range(100) if n % 10 != 9 and n % 2), 100]
    assert numbers(client.reader(topic, where="attributes.country = 'CH'", start=-1, end="latest")) == [100]


def test_a_filter_follows(client: bowstring.Client, topic: str):
    with client.reader(topic, where="key = 'needle'", start="latest") as reader, client.producer(topic) as producer:
        assert not len(reader.poll())
        for number in range(50):
            producer.send(b"hay", key=f"{number}")
        producer.send(b"found", key="needle")
        assert [message.value for message in reader.poll(timeout=10)] == [b"found"]


def test_columns_that_are_not_asked_for_are_not_sent(client: bowstring.Client, topic: str):
    sizes = {}
    for columns in (None, ["value"], ["offset", "partition"], ["key", "attributes"]):
        with client.reader(topic, columns=columns, end="latest") as reader:
            table = pa.concat_tables([pa.table(batch) for batch in reader.batches()]).unify_dictionaries()
            assert table.num_rows == 100
            assert columns is None or set(table.column_names) == set(columns)
            sizes[tuple(columns or ())] = reader.statistics().bytes
    assert sizes["offset", "partition"] < sizes["value",] < sizes[()]
    message = next(iter(client.reader(topic, columns=["value", "offset"])))
    assert message.text()
    assert message.offset
    assert repr(message)
    with pytest.raises(errors.InvalidArgument, match="leaves 'key' out"):
        _ = message.key
    without = next(iter(client.reader(topic, columns=["key"], where="key is not null")))
    assert (without.value, without.key is not None) == (None, True)


def test_pages_go_out_as_they_are_stored_where_only_small_moments_are_not_wanted(client: bowstring.Client):
    """`created` is a small part of large messages: they cost as many bytes with it as without it, and the reader leaves it out."""
    client.create_topic("large")
    with client.producer("large") as producer:
        producer.send_batch([bytes(1000)] * 100)
    sizes = []
    for columns in (None, ["value", "offset"]):
        with client.reader("large", columns=columns, end="latest") as reader:
            batch = pa.concat_tables([pa.table(each) for each in reader.batches()])
            assert columns is None or set(batch.column_names) == set(columns)
            assert batch["value"].to_pylist() == [bytes(1000)] * 100
            sizes.append(reader.statistics().bytes)
    assert sizes[0] == sizes[1]


def test_several_topics_in_one_reader(client: bowstring.Client, topic: str):
    other = f"{topic}-other"
    client.create_topic(other)
    with client.producer(other) as producer:
        producer.send_batch([b"%d" % number for number in range(100, 150)])
    with client.reader([topic, other], name="both", end="latest") as reader:
        batch = reader.poll(timeout=5)
        seen = [*batch, *reader]
        assert sorted(int(message.value or b"") for message in seen) == list(range(150))
        assert {message.topic for message in seen} == {topic, other}
        assert reader.position == {topic: client.offsets(topic), other: {0: 51}}
        assert reader.lag() == {topic: {0: 0, 1: 0, 2: 0}, other: {0: 0}}
        reader.commit()
        reader.seek({topic: {0: 1}, other: {0: 41}})
        assert {message.topic for message in reader} == {topic, other}
    assert client.position("both", other).offsets == {0: 51}
    assert list(client.reader([topic, other], name="both", end="latest")) == []
    for wrong, words in (([], "no topic"), ([topic, topic], "twice"), ([topic, 5], "is of type int")):
        with pytest.raises(errors.InvalidArgument, match=words):
            client.reader(wrong)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="nothing for"):
        client.reader([topic, other], start={topic: {0: 1}})


@pytest.mark.parametrize("share", [0.5, 1.0, 0.1])
def test_no_more_than_the_window_is_handed_out_before_a_commit(client: bowstring.Client, topic: str, share: float):
    with client.reader(topic, name="me", window=10, window_share=share, end="latest") as reader:
        seen = []
        while len(seen) < 100:
            before = len(seen)
            while len(batch := reader.poll(timeout=0.1 if len(seen) > before else 5, max_rows=4)):
                seen += [int(message.value or b"") for message in batch]
            assert 0 < len(seen) - before <= 10
            reader.commit()
        assert sorted(seen) == list(range(100))


def test_the_next_messages_come_when_the_share_is_committed(client: bowstring.Client, topic: str):
    with client.reader(topic, name="me", window=10, partitions=[0]) as reader:
        first = reader.poll(timeout=5, max_rows=10)
        while len(first) < 10:
            first = [*first, *reader.poll(timeout=5, max_rows=10 - len(first))]
        offsets = [message.offset for message in first]
        assert not len(reader.poll(timeout=0.05))
        reader.commit({0: offsets[3] + 1})
        assert not len(reader.poll(timeout=0.05)), "4 of 10 are not half of it"
        reader.commit({0: offsets[4] + 1})
        assert len(reader.poll(timeout=5)) == 5, "half of it is free again"
        assert not len(reader.poll(timeout=0.05))


def test_another_thread_commits_while_one_iterates(client: bowstring.Client, topic: str):
    with client.reader(topic, name="me", window=7, end="latest") as reader:
        done = threading.Event()

        def commit() -> None:
            while not done.wait(0.001):
                reader.commit()

        committing = threading.Thread(target=commit)
        committing.start()
        try:
            assert numbers(reader) == list(range(100))
        finally:
            done.set()
            committing.join()


def test_a_name_goes_on_where_it_was_committed(client: bowstring.Client, topic: str):
    seen: list[int] = []
    for part in range(4):
        with client.reader(topic, name="me", start=-50 if part == 0 else "latest", end="latest") as reader:
            for message in reader:
                seen.append(int(message.value or b""))
                if part < 3 and len(seen) % 10 == 0:
                    break
            reader.commit()
    assert len(seen) == 50
    assert len(set(seen)) == 50


async def test_the_same_in_asyncio(broker: bowstring.Broker, client: bowstring.Client, topic: str):
    async with bowstring.aio.connect(broker.address) as connected:
        assert await connected.offsets(topic, timedelta(hours=-1)) == {0: 1, 1: 1, 2: 1}
        reader = connected.reader(topic, where="attributes.country = 'CH'", name="me", window=20, end="latest")
        seen = []

        async def commit() -> None:
            while len(seen) < 50:
                await reader.commit()
                await asyncio.sleep(0.001)

        committing = asyncio.create_task(commit())
        async for message in reader:
            seen.append(int(message.value or b""))
        assert sorted(seen) == [number for number in range(100) if number % 10 != 9 and number % 2]
        committing.cancel()
        await reader.commit()
        assert [position.name async for position in connected.positions(topic)] == ["me"]
        assert sum((await connected.position("me", topic)).lag.values()) == 0
        await connected.set_position("me", topic, "beginning")
        await connected.delete_position("me", topic)


# ---- other people's libraries


def whole(client: bowstring.Client, topic: str, **options: object) -> bowstring.Batch:
    with client.reader(topic, end="latest", **options) as reader:  # type: ignore[arg-type]
        batches = list(reader.batches(max_wait=5))
    assert len(batches) == 1
    return batches[0]


def test_a_batch_is_a_polars_frame(client: bowstring.Client, topic: str):
    import polars as pl

    frame = pl.DataFrame(whole(client, topic))
    assert frame.columns == "topic partition offset id key value attributes created arrived due expires producer_group".split()
    assert frame.height == 100
    assert sorted(int(value) for value in frame["value"]) == list(range(100))
    assert frame.filter(pl.col("key") == b"customer-3")["topic"].unique().to_list() == [topic]
    assert pl.DataFrame(whole(client, topic, columns=["offset"])).columns == ["offset"]


def test_duckdb_asks_a_batch(client: bowstring.Client, topic: str):
    import duckdb

    batch = whole(client, topic)
    counted = duckdb.sql('select partition, count(*), max("offset") from batch group by 1 order by 1').fetchall()
    assert {partition: last + 1 for partition, _, last in counted} == client.offsets(topic)
    assert len(list(batch)) == 100
    assert duckdb.sql("from batch").columns == batch.schema.names
    swiss = duckdb.sql("select count(*) from batch where attributes['country'] = 'CH'").fetchall()
    assert swiss == [(sum(number % 10 != 9 and number % 2 for number in range(100)),)]


def test_a_batch_is_a_pandas_frame(client: bowstring.Client, topic: str):
    frame = whole(client, topic).to_arrow().to_pandas()
    assert len(frame) == 100
    assert set(frame.groupby("partition", observed=True)["offset"].max() + 1) == set(client.offsets(topic).values())


def test_an_empty_batch_is_one_too(client: bowstring.Client, topic: str):
    import duckdb
    import polars as pl

    batch = client.reader(topic, start="latest").poll()
    assert pl.DataFrame(batch).height == 0
    assert duckdb.sql("select count(*) from batch").fetchall() == [(0,)]
    assert batch.to_arrow().to_pandas().empty


def test_a_notebook_shows_a_table(client: bowstring.Client, topic: str):
    html = whole(client, topic, columns=["offset", "key"], where="key is not null")._repr_html_()
    assert "<th>key</th>" in html
    assert "customer-" in html
    assert "90 rows, the first 10" in html


def test_a_reader_from_the_latest_on_misses_nothing_that_is_sent_after_it_was_made(client: bowstring.Client, topic: str):
    with client.producer(topic) as producer:
        for number in range(20):
            with client.reader(topic, start="latest") as reader:
                producer.send(b"%d" % number, key=f"{number}").result(10)
                assert [message.value for message in reader.poll(10)] == [b"%d" % number]


async def _sent_and_read(address: str, topic: str) -> list[bytes | None]:
    read = []
    async with bowstring.aio.connect(address) as client, client.producer(topic) as producer:
        for number in range(20):
            async with client.reader(topic, start="latest") as reader:
                await producer.send(b"%d" % number, key=f"{number}")
                read += [message.value for message in await reader.poll(10)]
    return read


def test_a_reader_from_the_latest_on_misses_nothing_with_asyncio(broker: bowstring.Broker, topic: str):
    assert asyncio.run(_sent_and_read(broker.address, topic)) == [b"%d" % number for number in range(20)]
