"""What goes in and out of a broker, overheard on its way: a handler around the gateway tells the `watch`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Handler, Inbound, Pieces, Take, joined
from bowstring.wire.codec import split
from bowstring.wire.generated import bowstring_pb2 as pb
from tests.simulation.watch import Watch


class WatchedHandler:
    """`ports.transport.Handler`. A node that has lost its turn takes no new calls, because brokers have no lease for reading yet: it would
    tell what was true before the other node took over. Its streams go on."""

    def __init__(self, handler: Handler, watch: Watch, has_turn: Callable[[], bool]) -> None:
        self._handler = handler
        self._watch = watch
        self._has_turn = has_turn

    async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
        self._check_turn()
        return await self._handler.call(method, request, caller)

    async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
        self._check_turn()
        if method == "Publish" and self._watch.turns_away():
            raise errors.LoginRequired("the login has run out.", hint="Log in again.")
        watched = {"Fetch": Overheard, "Consume": Overheard, "Publish": Publishes}.get(method)
        await self._handler.stream(method, inbound if watched is None else watched(inbound, self._watch), caller)

    def _check_turn(self) -> None:
        if not self._has_turn():
            raise errors.Unavailable("another node serves.")


class Overheard(Inbound):
    """`ports.transport.Inbound` of a reader."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch

    async def read(self) -> Buffer | None:
        return await self._inbound.read()

    async def each(self, take: Take) -> None:
        await self._inbound.each(take)

    async def write(self, message: Buffer | Pieces) -> None:
        self._watch.answered(joined(message))
        await self._inbound.write(message)

    def try_write(self, message: Buffer | Pieces) -> bool:
        sent = self._inbound.try_write(message)
        if sent:
            self._watch.answered(joined(message))
        return sent


class Publishes(Inbound):
    """`ports.transport.Inbound` of a producer."""

    def __init__(self, inbound: Inbound, watch: Watch) -> None:
        self._inbound = inbound
        self._watch = watch
        self._producer = b""

    async def read(self) -> Buffer | None:
        message = await self._inbound.read()
        if message is not None:
            self._came(message)
        return message

    async def each(self, take: Take) -> None:
        def overheard(message: Buffer) -> Awaitable[None] | None:
            self._came(message)
            return take(message)

        await self._inbound.each(overheard)

    async def write(self, message: Buffer | Pieces) -> None:
        self._watch.acknowledged(self._producer, pb.PublishAnswer.FromString(joined(message)))
        await self._inbound.write(message)

    def try_write(self, message: Buffer | Pieces) -> bool:
        sent = self._inbound.try_write(message)
        if sent:
            self._watch.acknowledged(self._producer, pb.PublishAnswer.FromString(joined(message)))
        return sent

    def _came(self, message: Buffer) -> None:
        request = pb.PublishRequest.FromString(split(bytes(message))[0])
        if request.HasField("open"):
            self._producer = request.open.producer
        else:
            self._watch.published(self._producer, request)
