"""Kafka's clients, for what its harness does not have: keys and headers, and rows that come from and go into files.

They are what a user of confluent-kafka writes: `produce` for each message with a look at what came back every thousand, `consume` of
batches with the large local queue that a fast reader wants, columns built from lists. Files are read and written by pyarrow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.orders import COUNTRIES, KEYS, VALUES, keys, payloads
from benchmarks.processes import Meter

SERVER = {"bootstrap.servers": "127.0.0.1:19092"}
TOPIC = "orders"
PUBLISHING = {"linger.ms": 5, "acks": "all"}
READING = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 262_144, "fetch.queue.backoff.ms": 5}
"""The client's own 100,000 messages and back-off of a second would stall a fast reader."""
SCHEMA = pa.schema(
    {
        "topic": pa.utf8(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "timestamp": pa.timestamp("ms", "UTC"),
    }
)
FETCH = 10_000


def fresh_topic() -> None:
    """An empty topic. Deleting one takes Kafka a while, so it is asked again until there is a new one."""
    admin = AdminClient(SERVER)
    for gone in admin.delete_topics([TOPIC]).values():
        with contextlib.suppress(KafkaException):
            gone.result()
    until = time.monotonic() + 30
    while True:
        time.sleep(0.3)
        try:
            return admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        except KafkaException:
            if time.monotonic() > until:
                raise


def producer() -> Any:
    made = Producer(SERVER | PUBLISHING)
    made.list_topics(TOPIC)
    return made


def finish(publisher: Any) -> None:
    if publisher.flush(300):
        raise SystemExit("not everything was acknowledged")


def stored(_: argparse.Namespace) -> dict[str, Any]:
    """How many messages the topic has."""
    reader = Consumer(SERVER | {"group.id": "count"})
    _, end = reader.get_watermark_offsets(TopicPartition(TOPIC, 0))
    reader.close()
    return {"count": end}


def send(options: argparse.Namespace) -> dict[str, Any]:
    """One call per message, with key and two headers."""
    fresh_topic()
    values, names, countries = payloads(options.size), keys(), [country.encode() for country in COUNTRIES]
    publisher = producer()
    produce, poll = publisher.produce, publisher.poll
    meter = Meter(options.broker)
    meter.start()
    for number in range(options.count):
        headers = [("country", countries[number & 7]), ("kind", b"order")]
        while True:
            try:
                produce(TOPIC, values[number % VALUES], names[number % KEYS], headers=headers)
                break
            except BufferError:
                poll(0.005)
        if not number & 1023:
            poll(0)
    finish(publisher)
    figures = meter.stop(options.count, options.count * options.size)
    if (found := stored(options)["count"]) != options.count:
        raise SystemExit(f"{options.count} messages were sent, the topic has {found}")
    return figures


def from_file(options: argparse.Namespace) -> dict[str, Any]:
    """A Parquet file's rows, published one by one."""
    publisher = producer()
    produce, poll = publisher.produce, publisher.poll
    count = 0
    for batch in pq.ParquetFile(options.file).iter_batches():
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            while True:
                try:
                    produce(TOPIC, value, key)
                    break
                except BufferError:
                    poll(0.005)
            count += 1
            if not count & 1023:
                poll(0)
    finish(publisher)
    return {"count": count}


def to_file(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is in the topic, into an Arrow file."""
    reader = Consumer(SERVER | READING | {"group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    place = TopicPartition(TOPIC, 0, 0)
    _, end = reader.get_watermark_offsets(place)
    reader.assign([place])
    count = 0
    with pa.OSFile(options.file, "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        while count < end:
            messages = reader.consume(FETCH, 1.0)
            count += len(messages)
            if messages:
                writer.write_batch(_batch(messages))
    reader.close()
    return {"count": count}


def _batch(messages: list[Any]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.timestamp()[1] for message in messages],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def empty(_: argparse.Namespace) -> dict[str, Any]:
    fresh_topic()
    return {}


WORK = {"send": send, "from-file": from_file, "to-file": to_file, "empty": empty, "stored": stored}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.kafka_clients", description=__doc__)
    parser.add_argument("work", choices=sorted(WORK))
    parser.add_argument("--broker", type=int, required=True, help="the broker's process, for its CPU time")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--file", default="")
    options = parser.parse_args()
    print(json.dumps(WORK[options.work](options)))


if __name__ == "__main__":
    main()
