"""The pytest plug-in that comes with Bowstring: a real broker for your tests, in memory, on a free
port.

    def test_an_order_is_billed(bowstring_client, bowstring_topic):
        with bowstring_client.producer(bowstring_topic) as producer:
            producer.send(b"one coffee")
        assert [message.text() for message in bowstring_client.reader(bowstring_topic, end="latest")] == ["one coffee"]

| fixture | what it is | how long it lives |
|---|---|---|
| `bowstring_broker` | a `bowstring.Broker`, in memory; makes topics on publish | the session |
| `bowstring_client` | a client of it | a test |
| `bowstring_aio_client` | an async client of it; needs pytest-asyncio or anyio | a test |
| `bowstring_topic` | the name of a new topic, made for this test and deleted after it | a test |
| `bowstring_clock` | the manual clock of a broker of its own, which is `bowstring_clock.broker` | a test |

In a test that asks for `bowstring_clock` the clients and the topic are of that clock's broker.

pytest finds the plug-in by itself (`-p no:bowstring` leaves it out). Nothing is started before a
test asks for it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bowstring.client.client import Client as AsyncClient
    from bowstring.client.sync import Client
    from bowstring.embedded import Broker
    from bowstring.manual_clock import ManualClock

_numbers = count(1)


@pytest.fixture(scope="session")
def bowstring_broker() -> Iterator[Broker]:
    """A broker in memory, one for all tests of the session."""
    from bowstring.embedded import Broker

    with Broker.ephemeral() as broker:
        yield broker


@pytest.fixture
def bowstring_clock() -> Iterator[ManualClock]:
    """A clock that stands still until `advance`; its broker, this test's own, is
    `bowstring_clock.broker`.
    """
    from bowstring.embedded import Broker

    with Broker.ephemeral(clock="manual") as broker:
        yield broker.clock


@pytest.fixture
def bowstring_client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client. A message whose failure the test has not looked at fails the test at its end."""
    with _broker(request).connect(name=_name(request)) as client:
        yield client


@pytest.fixture
def bowstring_topic(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic."""
    name = f"{_name(request)[:200]}-{next(_numbers)}"
    with _broker(request).connect() as client:
        client.create_topic(name)
        yield name
        client.delete_topic(name, missing_ok=True)


@pytest.fixture
def bowstring_aio_client(request: pytest.FixtureRequest) -> AsyncClient:
    """A client for asyncio, on the loop of the test."""
    if request.node.get_closest_marker("anyio") is not None:
        return request.getfixturevalue("_bowstring_aio_client")
    if _asyncio is None or not request.config.pluginmanager.hasplugin("asyncio"):
        pytest.fail("bowstring_aio_client needs pytest-asyncio, or anyio and its marker: pip install pytest-asyncio", pytrace=False)
    return request.getfixturevalue("_bowstring_asyncio_client")


async def _aio_client(request: pytest.FixtureRequest) -> AsyncIterator[AsyncClient]:
    connecting = _broker(request)._broker.connect(name=_name(request))  # pyright: ignore[reportPrivateUsage]
    async with connecting as client:
        yield client


def _plugin(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_asyncio = _plugin("pytest_asyncio")
_bowstring_aio_client = pytest.fixture(_aio_client, name="_bowstring_aio_client")
if _asyncio is not None:
    _bowstring_asyncio_client = _asyncio.fixture(_aio_client, name="_bowstring_asyncio_client")


def _broker(request: pytest.FixtureRequest) -> Broker:
    """The broker of the manual clock if the test asks for one, else the session's."""
    if "bowstring_clock" in request.fixturenames:
        return request.getfixturevalue("bowstring_clock").broker
    return request.getfixturevalue("bowstring_broker")


def _name(request: pytest.FixtureRequest) -> str:
    """The test's name, as a topic may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-._") or "test"
