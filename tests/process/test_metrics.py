"""The figures in `/metrics` are right: something is done, and exactly that is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

import bowstring
import bowstring.aio
from bowstring import errors
from bowstring.http.figures import OTHERS
from bowstring.http.metrics import metrics
from tests.process.browsing import get, scrape

HTTP = "127.0.0.1:0"


def test_what_is_published_and_read_is_counted(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, http=HTTP) as broker, broker.connect() as client:
        assert broker.http_address is not None
        client.create_topic("orders")
        with client.producer("orders") as producer:
            for _ in range(10):
                producer.send_batch([b"x" * 100] * 100).result(60)
        reader = client.reader("orders", name="billing", end="latest")
        assert sum(len(batch) for batch in reader.batches()) == 1000
        seen = scrape(broker.http_address)
        assert seen["bowstring_published_messages_total",] == seen["bowstring_fetched_messages_total",] == 1000
        assert seen["bowstring_published_batches_total",] == 10
        assert 100_000 < seen["bowstring_published_bytes_total",] < 200_000
        assert seen["bowstring_topic_published_messages_total", "orders"] == seen["bowstring_topic_messages", "orders"] == 1000
        assert seen["bowstring_topic_published_bytes_total", "orders"] == seen["bowstring_published_bytes_total",]
        assert seen["bowstring_topic_fetched_messages_total", "orders"] == 1000
        assert (seen["bowstring_topics",], seen["bowstring_partitions",], seen["bowstring_topic_partitions", "orders"]) == (1, 1, 1)
        assert seen["bowstring_publish_seconds_count",] == 10
        assert seen["bowstring_publish_seconds_bucket", "+Inf"] == 10
        assert seen["bowstring_flush_seconds_count",] == seen["bowstring_commit_seconds_count",] == seen["bowstring_flushes_total",] == 10
        assert seen["bowstring_inlined_flushes_total",] == 10
        assert seen["bowstring_sync_seconds_count",] == 0
        assert seen["bowstring_publish_seconds_sum",] >= seen["bowstring_flush_seconds_sum",] >= seen["bowstring_commit_seconds_sum",] > 0
        assert seen["bowstring_memory_bytes", "tail"] > 100_000
        assert seen["bowstring_memory_max_bytes", "tail"] == 48 * 1024 * 1024
        assert seen["bowstring_catalog_bytes",] > 0
        assert seen["bowstring_disk_size_bytes",] > seen["bowstring_disk_free_bytes",] > 0
        assert seen["process_resident_memory_bytes",] > 10_000_000


def test_large_flushes_sync_a_segment(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, http=HTTP) as broker, broker.connect() as client, client.producer("orders") as producer:
        assert broker.http_address is not None
        for _ in range(3):
            producer.send(b"x" * 100_000).result(60)
        seen = scrape(broker.http_address)
        assert (seen["bowstring_sync_seconds_count",], seen["bowstring_inlined_flushes_total",]) == (3, 0)


def test_what_is_known_already_is_counted_as_duplicate():
    with bowstring.Broker.ephemeral(http=HTTP) as broker, broker.connect() as client:
        assert broker.http_address is not None
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send(b"one", id="order-1").result(60)
            assert producer.send(b"one", id="order-1").result(60).duplicate
        assert scrape(broker.http_address)["bowstring_duplicate_messages_total",] == 1
        client.delete_topic("orders")
        client.create_topic("orders")
        seen = scrape(broker.http_address)
        assert seen["bowstring_published_messages_total",] == 1
        assert seen["bowstring_topic_published_messages_total", "orders"] == 0  # a topic made again is another topic


async def test_a_batch_that_comes_too_late_is_counted_as_refused():
    async with bowstring.aio.Broker.ephemeral(http=HTTP, clock="manual") as broker, broker.connect() as client:
        await client.create_topic("orders")
        server = broker._running()
        admission = server.broker.serving.log.admission
        outcomes: list[object] = []
        refusal = errors.DeadlinePassed("too late")
        admission.refuse(admission.outstanding(0, outcomes.append), refusal)
        assert outcomes == [refusal]
        seen = await asyncio.to_thread(scrape, str(broker.http_address))
        assert seen["bowstring_refused_batches_total", "deadline-passed"] == 1


def test_the_lag_of_a_position_is_what_its_reader_has_before_it():
    with bowstring.Broker.ephemeral(http=HTTP) as broker, broker.connect() as client:
        assert broker.http_address is not None
        client.create_topic("orders")
        with client.producer("orders") as producer:
            producer.send_batch([b"x"] * 10).result(60)
            reader = client.reader("orders", name="billing", end="latest")
            assert len(list(reader)) == 10
            reader.commit()
            assert scrape(broker.http_address)["bowstring_position_lag_messages", "billing", "orders"] == 0
            producer.send_batch([b"x"] * 7).result(60)
        seen = scrape(broker.http_address)
        assert seen["bowstring_position_lag_messages", "billing", "orders"] == 7
        assert seen["bowstring_position_moved_timestamp_seconds", "billing", "orders"] > 1_700_000_000


def test_topics_and_positions_beyond_the_bound_are_summed_up():
    with bowstring.Broker.ephemeral(http=HTTP, metrics_topics_max=2, metrics_positions_max=1) as broker, broker.connect() as client:
        assert broker.http_address is not None
        for number, rows in enumerate((5, 1, 3, 2)):
            client.create_topic(f"topic-{number}")
            with client.producer(f"topic-{number}") as producer:
                producer.send_batch([b"x" * 1000] * rows).result(60)
            client.set_position("billing", f"topic-{number}", 1)
        seen = scrape(broker.http_address)
        topics = {key[1]: value for key, value in seen.items() if key[0] == "bowstring_topic_messages"}
        assert topics == {"topic-0": 5, "topic-2": 3, OTHERS: 3}
        lags = {key[1:]: value for key, value in seen.items() if key[0] == "bowstring_position_lag_messages"}
        assert lags == {("billing", "topic-0"): 5, (OTHERS, OTHERS): 6}


async def test_upkeep_is_counted(tmp_path: Path):
    async with bowstring.aio.Broker(data=tmp_path, http=HTTP, upkeep_seconds=3600) as broker, broker.connect() as client:
        await client.create_topic("orders", retention=1.0, deduplication=0.0)
        async with client.producer("orders") as producer:
            for _ in range(3):
                await producer.send_batch([b"x" * 1000] * 10)
        upkeep = broker._running().broker.serving.upkeep
        await upkeep.sealer.seal()
        await upkeep._turn()
        seen = await asyncio.to_thread(scrape, str(broker.http_address))
        assert seen["bowstring_seals_total",] == 1
        assert seen["bowstring_sealed_pages_total",] >= 1
        assert seen["bowstring_sealed_bytes_total",] > 30_000
        assert {key[1] for key in seen if key[0] == "bowstring_upkeep_turns_total"} == {"retention", "seal", "clear", "clean", "give-back"}
        assert seen["bowstring_upkeep_turns_total", "seal"] == 1
        assert seen["bowstring_upkeep_troubles_total", "seal"] == 0


async def test_what_retention_takes_is_counted():
    async with bowstring.aio.Broker.ephemeral(http=HTTP, clock="manual") as broker, broker.connect() as client:
        await client.create_topic("orders", retention=60.0, deduplication=0.0)
        async with client.producer("orders") as producer:
            await producer.send_batch([b"x"] * 10)
        await broker.clock.advance(3600)
        seen = await asyncio.to_thread(scrape, str(broker.http_address))
        assert seen["bowstring_expired_messages_total",] == 10
        assert seen["bowstring_topic_messages", "orders"] == 0


def test_every_metric_is_shown_and_has_the_name_that_prometheus_wants(tmp_path: Path):
    with bowstring.Broker(data=tmp_path, http=HTTP) as broker:
        text = get(f"{broker.http_address}/metrics").text
    for metric in metrics():
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert f"# HELP {metric.name} " in text
        assert metric.name.startswith("bowstring_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")


def test_a_scraper_that_wants_openmetrics_gets_it():
    with bowstring.Broker.ephemeral(http=HTTP) as broker:
        answer = get(f"{broker.http_address}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics(answer.text)}
    assert {"bowstring_flushes", "bowstring_topics", "bowstring_commit_seconds"} <= names


def test_the_statistics_of_a_broker_have_the_same_figures():
    with bowstring.Broker.ephemeral() as broker, broker.connect() as client, client.producer("orders") as producer:
        producer.send_batch([b"x"] * 5).result(60)
        found = broker.statistics()
        assert (found.published.batches, found.published.messages, found.messages, found.flushes) == (1, 5, 5, 1)
        with pytest.raises(AttributeError):
            found.published.messages = 7  # pyright: ignore[reportAttributeAccessIssue]
