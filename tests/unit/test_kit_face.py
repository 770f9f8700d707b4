"""The public face: what is there, that each of it is explained, and that sync and async are one face twice."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import resources
from typing import Any

import pytest

import bowstring
import bowstring.aio

OTHERS = {"aio", "spark"}
"""Names that are modules."""


def public_things() -> list[Any]:
    """Everything public, by name."""
    things = [(name, getattr(bowstring, name)) for name in bowstring.__all__ if name not in OTHERS]
    things += [(f"aio.{name}", getattr(bowstring.aio, name)) for name in bowstring.aio.__all__]
    return [pytest.param(thing, id=name) for name, thing in things]


def members(thing: type) -> dict[str, Any]:
    """What a class of ours has, by name, that programs may use; not what it has from Python."""
    found: dict[str, Any] = {}
    for cls in reversed(thing.__mro__):
        if cls.__module__.startswith("bowstring"):
            found |= {name: member for name, member in vars(cls).items() if not name.startswith("_")}
    return found


@pytest.mark.parametrize("thing", public_things())
def test_everything_public_is_explained(thing: Any):
    assert (thing.__doc__ or "").strip(), "it has no docstring"
    if not inspect.isclass(thing):
        return
    unexplained = [
        name
        for name, member in members(thing).items()
        if (callable(member) or isinstance(member, property | classmethod | staticmethod)) and not (inspect.getdoc(member) or "").strip()
    ]
    assert not unexplained


def test_what_statistics_and_info_give_is_explained_and_frozen():
    from bowstring.broker.broker import Statistics
    from bowstring.client.statistics import BrokerInfo, ClientStatistics, Info, ProducerStatistics, ReaderStatistics

    for kind in (ClientStatistics, ProducerStatistics, ReaderStatistics, Info, BrokerInfo, bowstring.Topic):
        assert kind.__doc__
        assert kind.__dataclass_params__.frozen
    assert issubclass(Statistics, tuple)


def test_the_async_face_has_the_same_names():
    own = set(bowstring.__all__) - OTHERS
    errors = {name for name in own if isinstance(getattr(bowstring, name), type) and issubclass(getattr(bowstring, name), bowstring.Error)}
    assert set(bowstring.aio.__all__) == own - errors


SHARED = sorted(set(bowstring.aio.__all__))


@pytest.mark.parametrize("name", SHARED)
def test_both_faces_have_one_signature_each(name: str):
    plain, asynchronous = getattr(bowstring, name), getattr(bowstring.aio, name)
    if plain is asynchronous:
        return
    if not inspect.isclass(plain):
        assert parameters(plain) == parameters(asynchronous)
        return
    mine, other = members(plain), members(asynchronous)
    assert set(other) - set(mine) <= {"open", "check"}, "opening is what connect does"
    assert not set(mine) - set(other)
    for member in mine:
        if inspect.isfunction(mine[member]):
            assert parameters(mine[member]) == parameters(other[member]), member
            assert annotations(mine[member]) == annotations(other[member]), member


@pytest.mark.parametrize("name", ["Client", "Producer", "Reader", "Broker"])
def test_what_waits_is_awaited(name: str):
    """Calls that wait are coroutines in the one and plain in the other; what makes something, or gives a receipt, is plain in both."""
    plain, asynchronous = members(getattr(bowstring, name)), members(getattr(bowstring.aio, name))
    for member in plain:
        assert not inspect.iscoroutinefunction(plain[member]), member
    never = {"producer", "reader", "send", "send_batch", "statistics", "ephemeral", "connect"}
    for member in never & set(asynchronous):
        assert not inspect.iscoroutinefunction(asynchronous[member]), member
    for member in {"flush", "close", "find", "create_topic", "topic", "poll", "seek", "start", "stop"} & set(asynchronous):
        assert inspect.iscoroutinefunction(asynchronous[member]), member


def parameters(call: Any) -> list[tuple[str, object, object]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(call).parameters.values()]


def annotations(call: Any) -> list[object]:
    return [p.annotation for p in inspect.signature(call).parameters.values()]


def test_types_come_along():
    assert resources.files("bowstring").joinpath("py.typed").is_file()


def test_asking_for_topics_needs_neither_arrow_nor_a_broker():
    """Commands that only ask for topics are quick because of this."""
    code = """
import sys, bowstring
def loaded(*names):
    return sorted({module.split(".")[0] for module in sys.modules} & set(names))
assert not loaded("pyarrow", "numpy", "grpc", "asyncio", "msgspec"), "import"
try:
    bowstring.connect("127.0.0.1:1", timeout=0.2)
except bowstring.Unavailable:
    pass
bowstring.Topic, bowstring.aio.connect, bowstring.aio.Client
assert not loaded("pyarrow", "numpy", "apsw", "pyspark", "email"), loaded("pyarrow", "numpy", "apsw", "pyspark", "email")
assert not [name for name in sys.modules if name.startswith(("bowstring.broker", "bowstring.store", "bowstring.core", "bowstring.spark"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
