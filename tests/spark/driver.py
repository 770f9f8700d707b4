"""A driver for the tests to kill: streams a topic into Parquet files until it has read all that was there when it began.

    python driver.py SERVER TOPIC DIRECTORY

A query that fails, because a Python worker of the driver's own was killed, is started again: that is what an operator would do.
"""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException

import bowstring


def main(server: str, topic: str, place: str) -> None:
    config = {"spark.driver.memory": "1g", "spark.local.dir": f"{place}/local", "spark.sql.warehouse.dir": f"{place}/warehouse"}
    spark = bowstring.spark.session("local[2,8]", name="driver", config=config)
    spark.sparkContext.setLogLevel("OFF")
    stream = spark.readStream.format("bowstring").options(server=server, subscribe=topic, startingOffsets="earliest")
    frame = stream.options(maxOffsetsPerTrigger="2000", minPartitions="4").load()
    sink = frame.writeStream.format("parquet").options(path=f"{place}/out", checkpointLocation=f"{place}/checkpoint")
    while True:
        try:
            sink.trigger(availableNow=True).start().awaitTermination()
            break
        except StreamingQueryException as error:
            print(str(error)[:200], flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
