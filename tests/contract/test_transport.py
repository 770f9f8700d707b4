"""The transports that keep the promises of transport_contract.py and transport_flow_contract.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contract.wires import GrpcWire, SharedGrpcWire, UnixWire, Wire

pytest.register_assert_rewrite("tests.contract.transport_contract", "tests.contract.transport_flow_contract")
from tests.contract.transport_contract import TransportContract  # noqa: E402
from tests.contract.transport_flow_contract import TransportFlowContract  # noqa: E402


class TestNativeOverTcp(TransportContract, TransportFlowContract):
    @pytest.fixture
    def wire(self, tmp_path: Path) -> Wire:
        return Wire(tmp_path)


class TestNativeOnUvloop(TransportContract, TransportFlowContract):
    """What a broker and the sync kit run on."""

    @pytest.fixture
    async def wire(self, tmp_path: Path) -> Wire:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        return Wire(tmp_path)


class TestNativeOverUnixSocket(TransportContract, TransportFlowContract):
    @pytest.fixture
    def wire(self, tmp_path: Path) -> Wire:
        return UnixWire(tmp_path)


class TestGrpcOnItsOwnPort(TransportContract, TransportFlowContract):
    @pytest.fixture
    def wire(self, tmp_path: Path) -> Wire:
        return GrpcWire(tmp_path)


class TestGrpcThroughTheSharedPortOnUvloop(TransportContract, TransportFlowContract):
    @pytest.fixture
    def wire(self, tmp_path: Path) -> Wire:
        return SharedGrpcWire(tmp_path)
