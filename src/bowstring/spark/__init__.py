"""Spark reads topics: `spark.read.format("bowstring")` and `spark.readStream.format("bowstring")`.

    orders = spark.readStream.format("bowstring").option("subscribe", "orders").load()

Rows travel as Arrow record batches from the broker to Spark. Read in this order: `options` (what people may say), `places` (which
offsets that means), `limits` and `tasks` (how much of it now, and by whom), `source` and `stream` (what Spark calls), `reading` (a
task), `columns` and `payloads` (the rows). `session` and `java` start a Spark where there is none.

`register(spark)` makes the format known where Spark's Python does not find it, and switches filter push-down on; `session()` gives an
embedded Spark, or one at an address.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.spark.session import register, session

__all__ = ["register", "session"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bowstring.spark' has no attribute {name!r}")
    module = import_module("bowstring.spark.session")
    globals().update({each: getattr(module, each) for each in __all__})  # importing it has put the module in the place of its function
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
