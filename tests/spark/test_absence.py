"""A broker that is away for a while: streams wait for it as long as the option says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import bowstring
from tests.process.serving import serving
from tests.spark.reads import LIMIT_SECONDS, Reads, eventually, publish


def test_a_stream_waits_for_a_broker_and_gives_up_when_the_time_is_over(spark: SparkSession, tmp_path: Path) -> None:
    """One stream has the ten seconds that the kit would wait, the other has what is the default for Spark. The broker comes back when the
    first has given up."""
    data = str(tmp_path / "broker")
    with serving("--data", data) as served, bowstring.connect(served.address) as client:
        client.create_topic("orders", partitions=2)
        publish(client, "orders", 10)
        address = served.address
        reads = Reads(spark, address, tmp_path)
        stream = {"subscribe": "orders", "startingOffsets": "earliest"}
        patient = reads.start(reads.stream(**stream), "patient", processingTime="0 seconds")
        hasty = reads.start(reads.stream(**stream, timeout="10s"), "hasty", processingTime="0 seconds")
        for query in (patient, hasty):
            eventually(lambda query=query: query.lastProgress is not None, "the first micro-batch")
    try:
        with pytest.raises(StreamingQueryException, match=r"bowstring\.errors\.Unavailable"):
            hasty.awaitTermination(LIMIT_SECONDS)
        assert patient.isActive
        with serving("--data", data, "--listen", address) as served, bowstring.connect(served.address) as client:
            publish(client, "orders", 10, 10)
            patient.processAllAvailable()
            assert reads.numbers(reads.written("patient")) == list(range(20))
            patient.stop()
    finally:
        patient.stop()
        hasty.stop()
