"""Spark reads topics: `spark.read.format("bowstring")` and `spark.readStream.format("bowstring")`.

    orders = spark.readStream.format("bowstring").option("subscribe", "orders").load()

Rows travel as Arrow record batches from the broker to Spark. Read in this order: `options` (what people may say), `places` (which
offsets that means), `limits` and `tasks` (how much of it now, and by whom), `source` and `stream` (what Spark calls), `reading` (a
task), `columns` and `payloads` (the rows). `starting` and `java` start a Spark where there is none.

`register(spark)` makes the format known where Spark's Python does not find it, and switches filter push-down on; `session()` gives an
embedded Spark, or one at an address.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.spark.starting import register, session

__all__ = ["register", "session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bowstring.spark' has no attribute {name!r}")
    return getattr(import_module("bowstring.spark.starting"), name)


def __dir__() -> list[str]:
    return __all__
