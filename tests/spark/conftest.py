"""One Spark and one broker for all tests of a worker: starting a JVM takes seconds, and tests that share it do not meet, because each
has topics and directories of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bowstring
from bowstring.errors import NotSupported
from bowstring.spark import java
from tests.process.serving import SOURCE, serving
from tests.spark.reads import Reads

CONFIG = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2", "spark.sql.streaming.metricsEnabled": "false"}
NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves sockets to the garbage collector, which is no failure of the test that happens to run then. Without any Java there is
    nothing to start: the tests say so, and what would make them run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"))
    try:
        java.home(os.environ)
    except NotSupported as error:
        for item in ours:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason=str(error)))


@pytest.fixture(scope="session")
def workers_source() -> Iterator[None]:
    """Python workers of Spark find the source that is tested."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([SOURCE, *([before] if before else [])])
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def spark(workers_source: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    config = {**CONFIG, "spark.sql.warehouse.dir": str(place / "warehouse"), "spark.local.dir": str(place)}
    session = bowstring.spark.session("local[2]", name="tests", config=config)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving("--data", str(tmp_path_factory.mktemp("broker"))) as served:
        yield served.address


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[bowstring.Client]:
    with bowstring.connect(server) as connected:
        yield connected


@pytest.fixture
def topic(client: bowstring.Client) -> str:
    """The name of a new topic with two partitions."""
    name = f"orders-{os.getpid()}-{next(NUMBERS)}"
    client.create_topic(name, partitions=2)
    return name


@pytest.fixture
def reads(spark: SparkSession, server: str, tmp_path: Path) -> Reads:
    return Reads(spark, server, tmp_path)
