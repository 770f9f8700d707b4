"""A native server without sockets, an honest client of it, and everything that is noted: for tests of peers that behave badly."""

from __future__ import annotations

import asyncio
from typing import Any

from bowstring.ports.transport import Caller, Inbound
from bowstring.wire import native_frames as frames
from bowstring.wire.native_server import NativeServer
from bowstring.wire.stream_limits import StreamLimits
from tests.unit.memory_transport import Peer, message

STREAMS_MAX = 20


class Lines:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, dict[str, Any]]] = []

    def note(self, event: str, /, **fields: object) -> None:
        self.noted.append((event, fields))

    def problems(self) -> list[object]:
        """Why connections were ended."""
        return [
            fields.get("problem", fields.get("limit")) for event, fields in self.noted if event in ("connection-refused", "client-refused")
        ]


class Patient:
    """Answers a request with itself, and reads streams until they end."""

    def __init__(self) -> None:
        self.begun = 0
        self.most = 0
        self.under_way = 0

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        await self._counted(asyncio.Event().wait() if request == b"wait" else asyncio.sleep(0))
        return request

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        await self._counted(inbound.each(lambda _message: None))

    async def _counted(self, waiting: Any) -> None:
        self.begun += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await waiting
        finally:
            self.under_way -= 1


class Scene:
    """A server, and an honest client of it."""

    def __init__(self, connections_max: int = 100) -> None:
        self.lines = Lines()
        self.handler = Patient()
        limits = StreamLimits(streams_max=100, connection_streams_max=STREAMS_MAX, observer=self.lines)
        self.server = NativeServer(self.handler, limits, batch_bytes_max=1 << 20, connections_max=connections_max)
        self.honest = Peer(self.server)
        self._number = 0

    async def is_answered(self) -> bool:
        """Whether the honest client is."""
        self._number += 1
        self.honest.send(frames.opening(self._number, "Hello", 5000), message(self._number, b"there?", last=True))
        return (frames.MESSAGE, self._number, frames.LAST, b"there?") in await self.honest.answers()

    def leaves_nothing(self) -> bool:
        """Whether nothing is left of any call."""
        return not (self.server.tasks or self.server.limits.streams or self.handler.under_way)
