"""`make demo`: a broker, a stream of orders, Spark that adds them up by window and country while they come, and workers that bill them.

The table is printed as it grows; at the end it is a picture. Broker and Spark live in this process and its children, and in a temporary
directory: nothing is left but the picture.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import bowstring
from bowstring import errors
from demo import orders, picture
from demo.billing import Billing
from demo.picture import Total

SCHEMA = "order bigint, country string, product string, amount double, at timestamp"
WINDOW = "5 seconds"
WORKERS = 3


class Demo:
    """The table, and where it is shown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.totals: list[Total] = []

    def grow(self, frame: Any, epoch: int) -> None:
        """Takes the whole table after a micro-batch, and shows it."""
        self.totals = [Total(f"{row.window.start:%H:%M:%S}", row.country, row.orders, row.amount) for row in frame.collect()]
        if self.totals:
            self._console.print(self._table(epoch))

    def _table(self, epoch: int) -> Table:
        countries = sorted({total.country for total in self.totals})
        table = Table(title=f"orders by window of {WINDOW} (micro-batch {epoch})")
        for name in ("window", *countries, "orders", "amount"):
            table.add_column(name, justify="left" if name == "window" else "right")
        for window in sorted({total.window for total in self.totals}):
            lines = {total.country: total for total in self.totals if total.window == window}
            amounts = [f"{lines[country].amount:,.0f}" if country in lines else "" for country in countries]
            count, amount = sum(line.orders for line in lines.values()), sum(line.amount for line in lines.values())
            table.add_row(window, *amounts, f"{count}", f"{amount:,.0f}")
        return table


def run(seconds: float, rate: float, out: Path, console: Console) -> None:
    """Everything, from the start of Spark to the picture."""
    console.print("Starting Spark …")
    spark = bowstring.spark.session(name="demo", config={"spark.log.level": "ERROR"})
    stopped, demo = threading.Event(), Demo(console)
    with tempfile.TemporaryDirectory(prefix="bowstring-demo-") as place, bowstring.Broker(data=f"{place}/data") as broker:
        client = broker.connect()
        client.create_topic(orders.TOPIC, partitions=2)
        console.print(f"A broker serves {broker.address}; orders come for {seconds:g} seconds.")
        counts: list[int] = []
        shop = threading.Thread(target=lambda: counts.append(orders.produce(client, seconds, rate, stopped)))
        query = _query(spark, broker.address, place, demo)
        billing = Billing(client, orders.TOPIC, WORKERS)
        shop.start()
        billing.start()
        try:
            shop.join()
            query.processAllAvailable()
            billing.finish()
        finally:
            stopped.set()
            shop.join()
            billing.stop()
            query.stop()
            spark.stop()
            client.close()
    read = sum(total.orders for total in demo.totals)
    billed = sum(billing.billed.values())
    shares = ", ".join(f"{name} {count}" for name, count in billing.billed.items())
    console.print(f"{counts[0]} orders were sent, Spark has counted {read}, {WORKERS} workers have billed {billed} ({shares}).")
    console.print(f"{billing.declined} of them were declined at first, and came again.")
    out.write_text(picture.draw(demo.totals, f"{read} orders, amounts by window of {WINDOW}"), encoding="utf-8")
    console.print(f"The picture is in {out}.")
    if not read == billed == counts[0]:
        raise SystemExit(1)


def _query(spark: Any, server: str, place: str, demo: Demo) -> Any:
    from pyspark.sql import functions as f

    stream = spark.readStream.format("bowstring").options(server=server, subscribe=orders.TOPIC, payload="json", startingOffsets="earliest")
    totals = (
        stream.schema(SCHEMA)
        .load()
        .withWatermark("at", "30 seconds")
        .groupBy(f.window("at", WINDOW), "country")
        .agg(f.count("*").alias("orders"), f.sum("amount").alias("amount"))
    )
    writer = totals.writeStream.outputMode("complete").foreachBatch(demo.grow).option("checkpointLocation", f"{place}/checkpoint")
    return writer.trigger(processingTime="4 seconds").start()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long orders come")
    parser.add_argument("--rate", type=float, default=100.0, help="orders a second, on the average")
    parser.add_argument("--out", type=Path, default=Path("demo.svg"), help="where the picture goes")
    options = parser.parse_args()
    try:
        run(options.seconds, options.rate, options.out, Console())
    except errors.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
