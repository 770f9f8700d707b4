"""A Spark to work with: embedded and local by default, or the one at an address."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bowstring.errors import InvalidArgument, NotSupported
from bowstring.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MIN: Final = (4, 2)
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1)),
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false",
}
"""Settings for a Spark in one process: no web server, nothing open to the network, no 200 tasks for
a handful of rows. The JVM does not check the bounds of every single value of an Arrow batch,
because the broker has checked the batch as a whole.
"""


def session(address: str | None = None, *, name: str = "bowstring", config: Mapping[str, Any] | None = None) -> SparkSession:
    """A Spark session that knows the format `bowstring`: embedded and local by default, or at an
    address, which is a master (`spark://…`, `yarn`, `k8s://…`, `local[2]`) or a Connect server
    (`sc://…`). `config` are settings of Spark.
    """
    _check_spark()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    if address is not None and address.startswith("sc://"):
        builder = builder.remote(address)
        settings: dict[str, Any] = {}
    elif address is None or address.startswith(("local", "spark://", "yarn", "k8s://")):
        master = address or "local[*]"
        _prepare()
        builder = builder.master(master).appName(name)
        settings = dict(LOCAL) if master.startswith("local") else {}
    else:
        raise InvalidArgument(
            f"'{address}' is not the address of a Spark.", hint="Use local[*], spark://host:7077, yarn, k8s://… or sc://host:15002."
        )
    for key, value in {**settings, **(config or {})}.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    register(made)
    return made


def register(spark: SparkSession) -> None:
    """Registers the format with this session, if Spark has not found it by itself, and switches
    filter push-down on.
    """
    _check_spark()
    from pyspark.errors import AnalysisException

    from bowstring.spark.source import Source

    try:
        spark.dataSource.register(Source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.conf.set(PUSHDOWN, "true")


def _check_spark() -> None:
    try:
        import pyspark
    except ImportError:
        raise NotSupported("there is no PySpark here.", hint="pip install 'bowstring[spark]'.") from None
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < SPARK_MIN:
        raise NotSupported(f"this is Spark {pyspark.__version__}, and 4.2 or newer is needed.", hint="pip install -U 'bowstring[spark]'.")


def _prepare() -> None:
    """The environment of a JVM that is started from here: a suitable Java, and workers with this
    Python.
    """
    chosen = java.home(os.environ)
    if chosen is not None:
        os.environ["JAVA_HOME"] = str(chosen)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
