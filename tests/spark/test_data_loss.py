"""Messages that are gone: a read that was to have them fails, or goes on if it was told to."""

from __future__ import annotations

import json

import bowstring
from tests.spark.reads import Reads, all_places, expire, places, publish


def test_offsets_that_expired_fail_a_batch_unless_it_may_pass_them_over(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    expire(client, topic)
    publish(client, topic, 20, 20)
    start = json.dumps({topic: {"0": 1, "1": 1}})
    said = reads.refused(lambda: reads.batch(subscribe=topic, startingOffsets=start).count())
    assert f"{topic}/0 begins at offset {client.topic(topic).ranges[0].start} (older messages expired), 1 was to be read." in said
    assert "Set failOnDataLoss to false to go on with what is there." in said
    frame = reads.batch(subscribe=topic, startingOffsets=start, failOnDataLoss="false")
    assert places(frame) == all_places(client, topic)
    assert reads.numbers(reads.batch(subscribe=topic)) == list(range(20, 40))


def test_offsets_that_were_never_there_fail_a_batch(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    beyond = json.dumps({topic: {"0": 1000, "1": -1}})
    assert "ends at offset" in reads.refused(lambda: reads.batch(subscribe=topic, endingOffsets=beyond).count())
    start, end = json.dumps({topic: {"0": 4, "1": 1}}), json.dumps({topic: {"0": 2, "1": 1}})
    said = reads.refused(lambda: reads.batch(subscribe=topic, startingOffsets=start, endingOffsets=end).count())
    assert f"{topic}/0 would be read from offset 4 to 2. The end may not come before the start." in said


def test_offsets_of_other_partitions_are_refused(client: bowstring.Client, topic: str, reads: Reads) -> None:
    for offsets, sentence in (
        ({topic: {"0": 1}}, f"startingOffsets says nothing about {topic}/1."),
        ({topic: {"0": 1, "1": 1, "2": 1}}, f"startingOffsets has {topic}/2, which is not read."),
    ):
        assert sentence in reads.refused(reads.batch(subscribe=topic, startingOffsets=json.dumps(offsets)).count)
    assert "It has 2 partitions" in reads.refused(lambda: reads.batch(assign=json.dumps({topic: [2]})).count())
    assert "there is no topic" in reads.refused(lambda: reads.batch(subscribe=f"{topic}-no").count())


def test_a_stream_that_retention_has_overtaken_fails_unless_it_may_go_on(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    stream = {"subscribe": topic, "startingOffsets": "earliest"}
    reads.run(reads.stream(**stream))
    publish(client, topic, 20, 20)
    expire(client, topic)
    publish(client, topic, 20, 40)
    said = reads.refused(lambda: reads.run(reads.stream(**stream)))
    assert "(older messages expired)" in said
    reads.run(reads.stream(**stream, failOnDataLoss="false"))
    assert reads.numbers(reads.written()) == [*range(20), *range(40, 60)]


def test_a_topic_that_was_made_again_is_another_one(client: bowstring.Client, topic: str, reads: Reads) -> None:
    publish(client, topic, 20)
    stream = {"subscribe": topic, "startingOffsets": "earliest"}
    reads.run(reads.stream(**stream))
    client.delete_topic(topic)
    assert f"the topic '{topic}' is gone" in reads.refused(lambda: reads.run(reads.stream(**stream)))
    client.create_topic(topic, partitions=2)
    publish(client, topic, 60, 20)
    assert f"the topic '{topic}' was deleted and made again" in reads.refused(lambda: reads.run(reads.stream(**stream)))
    reads.run(reads.stream(**stream, failOnDataLoss="false"))
    assert reads.numbers(reads.written()) == list(range(80))


def test_a_topic_that_is_deleted_after_planning_is_passed_over_if_it_may(client: bowstring.Client, topic: str, reads: Reads) -> None:
    """The micro-batch is in Spark's log, so every restart plans it again."""
    other = f"{topic}-other"
    client.create_topic(other)
    publish(client, topic, 10)
    publish(client, other, 10, 10)
    stream = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest"}
    reads.refused(lambda: reads.run(reads.stream(**stream).where("assert_true(false, 'no luck') is null")))
    client.delete_topic(other)
    said = reads.refused(lambda: reads.run(reads.stream(**stream)))
    assert f"there is no topic '{other}'" in said
    assert "Set failOnDataLoss to false" in said
    reads.run(reads.stream(**stream, failOnDataLoss="false"))
    assert reads.numbers(reads.written()) == list(range(10))
