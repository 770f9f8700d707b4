"""Spark reads topics: `spark.read.format("bowstring")` and `spark.readStream.format("bowstring")`.

    orders = spark.readStream.format("bowstring").option("subscribe", "orders").load()

Rows travel as Arrow record batches from the broker to Spark. Read in this order: `options` (the
options of a read), `places` (the offsets that they mean), `limits` and `tasks` (how much to read
now, and which task reads it), `source` and `stream` (the classes that Spark calls), `reading` (a
task), `columns` and `payloads` (the rows). `starting` and `java` start a Spark if there is none.

`register(spark)` registers the format if Spark's Python does not find it, and switches filter
push-down on; `session()` returns an embedded Spark, or one at an address.
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
