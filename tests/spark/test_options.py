"""What people may write as options, and the sentence that each mistake gets. Nothing here starts a Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bowstring import errors
from bowstring.spark import options

NOW = 1_800_000_000_000_000
ONE = {"subscribe": "orders"}

WRONG: list[tuple[dict[str, str], str | None, str]] = [
    ({}, None, "no topic was given. Give one of subscribe, subscribePattern and assign."),
    ({"subscribe": "a", "assign": '{"a": [0]}'}, None, "subscribe and assign were given. Give one of"),
    ({"subscribe": ""}, None, "subscribe is empty. Give it a value, or omit subscribe."),
    ({"subscribe": "a,,b"}, None, "subscribe=a,,b has an empty or a repeated name."),
    ({"subscribePattern": "a("}, None, "subscribePattern=a( is not a regular expression: missing ), unterminated subpattern"),
    (
        {"assign": "orders"},
        None,
        'assign=orders is not JSON: Expecting value: line 1 column 1 (char 0). Use {"orders": [0, 1]}.',
    ),
    ({"assign": '{"orders": ["0"]}'}, None, 'assign has ["0"] for \'orders\'. Use {"orders": [0, 1]}.'),
    (
        {"kafka.bootstrap.servers": "shop:9092"},
        None,
        "is an option of Spark's Kafka source; this is Bowstring. Use 'server', as in bowstring://shop.",
    ),
    ({"kafka.group.id": "a"}, None, "'kafka.group.id' is an option of Spark's Kafka source; this is Bowstring."),
    ({**ONE, "subscription": "billing"}, None, "'subscription': reading a subscription as a queue comes in a later version."),
    ({**ONE, "mode": "shared"}, None, "comes in a later version. Read as a log: 'subscribe'."),
    ({**ONE, "lease": "5m"}, None, "comes in a later version."),
    ({"topic": "orders"}, None, "'topic': writing to topics from Spark comes in a later version."),
    ({"path": "orders"}, None, "load() was given 'orders'; a topic is not a path. Use .option('subscribe', 'orders').load()."),
    ({**ONE, "startingoffset": "earliest"}, None, "there is no option 'startingoffset'. Did you mean 'startingOffsets'?"),
    ({**ONE, "zzz": "1"}, None, "there is no option 'zzz'. There are server, token,"),
    ({**ONE, "server": "bowstring://a", "context": "b"}, None, "both server and context were given. Give one of them."),
    (
        {**ONE, "startingOffsets": "first"},
        None,
        'startingOffsets=first is not JSON: Expecting value: line 1 column 1 (char 0). Use "earliest"',
    ),
    ({**ONE, "startingOffsets": "[]"}, None, "startingOffsets=[] is not a JSON object of topics."),
    ({**ONE, "startingOffsets": '{"orders": 3}'}, None, "startingOffsets has 3 for 'orders'."),
    (
        {**ONE, "startingOffsets": '{"orders": {"0": -3}}'},
        None,
        "has -3, which is not an offset. Offsets count from 1; -1 is the latest, -2 the earliest.",
    ),
    ({**ONE, "startingOffsets": '{"orders": {"0": "5"}}'}, None, 'startingOffsets has "5", which is not an offset.'),
    ({**ONE, "startingOffsets": "latest"}, "batch", "startingOffsets=latest leaves nothing for a batch to read."),
    ({**ONE, "endingOffsets": "earliest"}, None, "endingOffsets=earliest leaves nothing to read."),
    (
        {**ONE, "endingOffsets": '{"orders": {"0": -2}}'},
        None,
        "endingOffsets has -2, which is not an offset. Offsets count from 1; -1 is the latest.",
    ),
    ({**ONE, "endingOffsets": "latest"}, "stream", "endingOffsets is an option of a batch: a stream reads on and has no end."),
    ({**ONE, "startingOffsets": "earliest", "startingTimestamp": "1"}, None, "startingOffsets and startingTimestamp were given."),
    ({**ONE, "startingTimestamp": "2026-11-15T09:00"}, None, 'startingTimestamp = "2026-11-15T09:00" has no time zone. For UTC write'),
    ({**ONE, "startingTimestamp": "yesterday"}, None, 'startingTimestamp = "yesterday" is not a moment. Use "20'),
    ({**ONE, "startingTimestamp": "+1h"}, None, "startingTimestamp=+1h is in the future."),
    ({**ONE, "startingTimestamp": "9999999999999"}, None, "startingTimestamp=9999999999999 is after 2200. Give milliseconds since 1970."),
    ({**ONE, "startingOffsetsByTimestamp": '{"orders": {"0": "noon"}}'}, None, 'startingOffsetsByTimestamp = "noon" is not a moment.'),
    ({**ONE, "startingOffsetsByTimestamp": '{"orders": [1]}'}, None, "startingOffsetsByTimestamp has [1] for 'orders'."),
    ({**ONE, "startingOffsetsByTimestampStrategy": "skip"}, None, "Strategy=skip is not valid. Use error or latest."),
    ({**ONE, "maxOffsetsPerTrigger": "0"}, "stream", "maxOffsetsPerTrigger=0 is not valid. Use a whole number above 0."),
    ({**ONE, "maxOffsetsPerTrigger": "1e6"}, "stream", "maxOffsetsPerTrigger=1e6 is not valid."),
    ({**ONE, "maxOffsetsPerTrigger": "10"}, "batch", "maxOffsetsPerTrigger is an option of a stream: a batch has no triggers"),
    (
        {**ONE, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
        "stream",
        "minOffsetsPerTrigger=9 is more than maxOffsetsPerTrigger=5.",
    ),
    ({**ONE, "maxTriggerDelay": "soon"}, "stream", 'maxTriggerDelay = "soon" is not a span of time.'),
    ({**ONE, "maxBytesPerTrigger": "1 MB"}, "stream", "maxBytesPerTrigger=1 MB is not valid."),
    ({**ONE, "minPartitions": "-4"}, None, "minPartitions=-4 is not valid."),
    ({**ONE, "maxRecordsPerPartition": "many"}, None, "maxRecordsPerPartition=many is not valid."),
    ({**ONE, "failOnDataLoss": "no"}, None, "failOnDataLoss=no is neither true nor false."),
    ({**ONE, "includeHeaders": "1"}, None, "includeHeaders=1 is neither true nor false."),
    ({**ONE, "columns": "value,value"}, None, "columns=value,value has an empty or a repeated name."),
    ({**ONE, "payload": "avro"}, None, "payload=avro is not valid. Use bytes, text, json or arrow."),
    ({**ONE, "name": "billing"}, "batch", "name is an option of a stream"),
    ({**ONE, "groupIdPrefix": "a"}, None, "'groupidprefix' is an option of Spark's Kafka source; this is Bowstring. There are no consumer"),
    ({**ONE, "fetchOffset.numRetries": "3"}, None, "To say how long a broker may be away, use 'timeout'."),
    ({**ONE, "timeout": "soon"}, None, 'timeout = "soon" is not a span of time.'),
    ({**ONE, "timeout": "0s"}, None, "timeout=0 leaves no time to ask a broker. The default is 2m."),
    ({**ONE, "onBadPayload": "null"}, None, "onBadPayload=null needs a payload: bytes are never bad. Set payload to text, json or arrow."),
    ({**ONE, "payload": "json", "onBadPayload": "drop"}, None, "onBadPayload=drop is not valid. Use fail, null or skip."),
    ({**ONE, "payload": "json", "columns": "value"}, None, "columns beside payload=json: the schema names the columns."),
]


@pytest.mark.parametrize(("given", "kind", "sentence"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_option_is_told_what_would_be_right(given: dict[str, str], kind: Any, sentence: str) -> None:
    with pytest.raises(errors.Rejected) as caught:
        options.parse(given, NOW, kind)
    assert sentence in str(caught.value)


def test_names_are_taken_in_any_case() -> None:
    said = options.parse({"SUBSCRIBE": "orders", "maxoffsetspertrigger": "7", "FailOnDataLoss": "FALSE"}, NOW, "stream")
    assert (said.topics, said.offsets_max, said.fail_on_data_loss) == (("orders",), 7, False)


def test_defaults_are_those_of_the_table() -> None:
    said = options.parse(ONE, NOW)
    assert (said.timeout_seconds, said.on_bad_payload) == (120.0, "fail")
    assert (said.start, said.end, said.strategy, said.payload, said.delay_seconds_max) == (None, None, "error", "bytes", 900.0)
    assert (said.fail_on_data_loss, said.headers, said.metadata, said.columns, said.offsets_max) == (True, False, False, None, None)


def test_offsets_of_a_stream_may_be_given_back_with_the_numbers_of_its_topics() -> None:
    text = json.dumps({"orders": {"0": 23, "1": 0, "2": -1}, options.IDS: {"orders": 4}})
    start = options.parse({**ONE, "startingOffsets": text}, NOW).start
    assert start is not None
    assert start.offsets == {"orders": {0: 23, 1: 1, 2: -1}}


def test_moments_are_milliseconds_or_text() -> None:
    text = '{"orders": {"0": 1763197200000, "1": "2025-11-15T09:00Z", "2": "-1h"}}'
    start = options.parse({**ONE, "startingOffsetsByTimestamp": text}, NOW).start
    assert start is not None
    assert start.offsets == {"orders": {0: 1763197200000000, 1: 1763197200000000, 2: NOW - 3_600_000_000}}
