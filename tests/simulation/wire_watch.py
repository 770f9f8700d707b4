"""The product's transport, watched from below while a world runs: its sizes are those of the seed,
rare states are counted where they are reached, and promises are checked that no user of it sees.

- The unread bytes of a call stay within its window and one message.
- A sender that waits for credit gets it when its receiver has taken everything.
- Neither side refuses the other: in this world nobody breaks the protocol, and no byte changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.wire import native_client, native_connection, native_frames, served_call
from bowstring.wire.native_call import MESSAGE_COST, NativeCall
from bowstring.wire.native_client import DialledConnection
from bowstring.wire.native_connection import NativeConnection
from bowstring.wire.native_frames import FrameReader
from bowstring.wire.native_server import ServedConnection

if TYPE_CHECKING:
    from tests.simulation.world import World

CREDIT_SECONDS = 5.0
"""So long credit may take from an idle receiver, which is a hundred delays."""


@contextmanager
def watched_wire(world: World) -> Iterator[None]:
    """Watches while the world runs."""
    watch = WireWatch(world)
    with ExitStack() as patches:
        for owner, name, value in watch.sizes():
            patches.enter_context(patch.object(owner, name, value))
        for owner, name, around in watch.eyes():
            patches.enter_context(patch.object(owner, name, around(getattr(owner, name))))
        yield


class WireWatch:
    """The eyes of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sometimes = world.sometimes
        self._ledger = world.network.ledger

    def sizes(self) -> list[tuple[object, str, float]]:
        options = self._world.options
        windows = [
            (module, name, size)
            for module in (native_client, served_call)
            for name, size in (("TO_BROKER_BYTES", options.to_broker_bytes), ("TO_CALLER_BYTES", options.to_caller_bytes))
        ]
        return [
            *windows,
            (native_connection, "WRITE_BYTES_HIGH", options.unsent_bytes),
            (native_connection, "WRITE_BYTES_LOW", options.unsent_bytes // 4),
            (native_connection, "JOINED_BYTES", options.joined_bytes),
            (native_frames, "LARGE_BYTES", options.large_bytes),
        ]

    def eyes(self) -> list[tuple[type, str, Callable[[Any], Any]]]:
        return [
            (NativeConnection, "connection_made", self._made),
            (NativeConnection, "connection_lost", self._lost),
            (NativeCall, "received", self._received),
            (NativeCall, "_check_writable", self._waits),
            (FrameReader, "_received_large", self._large),
            (DialledConnection, "control", self._control),
            (DialledConnection, "give_up", self._gives_up),
            (ServedConnection, "give_up", self._gives_up),
            (NativeConnection, "stray", self._stray),
            (ServedConnection, "stray", self._stray),
            (ServedConnection, "_tell", self._tell),
        ]

    # ---- rare states -----------------------------------------------------------------------------------------------

    def _made(self, original: Any) -> Any:
        def connection_made(connection: NativeConnection, transport: Any) -> None:
            connection._coalesces = not self._world.options.gathers
            original(connection, transport)

        return connection_made

    def _lost(self, original: Any) -> Any:
        def connection_lost(connection: NativeConnection, error: Exception | None) -> None:
            reader = connection._reader
            if reader._large is not None or len(reader._rest) > native_frames.HEADER_BYTES:
                self._sometimes("frame cut in its payload")
            elif reader._rest:
                self._sometimes("frame cut in its header" if reader._greeted else "frame cut in the preface")
            original(connection, error)

        return connection_lost

    def _large(self, original: Any) -> Any:
        def received_large(reader: FrameReader, large: memoryview, count: int, frames: list[Any]) -> None:
            original(reader, large, count, frames)
            self._sometimes("large message received into its own memory in pieces", reader._large is not None)

        return received_large

    def _control(self, original: Any) -> Any:
        def control(connection: DialledConnection, kind: int, number: int, flags: int, payload: bytes) -> None:
            if kind == native_frames.GOODBYE:
                self._sometimes("goodbye seen")
                self._sometimes("goodbye seen while calls were open", bool(connection.calls))
            original(connection, kind, number, flags, payload)

        return control

    def _stray(self, original: Any) -> Any:
        def stray(connection: NativeConnection, number: int) -> None:
            self._sometimes("call cancelled while its message was in flight")
            original(connection, number)

        return stray

    # ---- promises --------------------------------------------------------------------------------------------------

    def _received(self, original: Any) -> Any:
        def received(call: NativeCall, message: Buffer, last: bool) -> bool:
            accepted = original(call, message, last)
            if len(call._inbox) > 1:
                unread = sum(len(each) + MESSAGE_COST for each in call._inbox)
                window = self._world.options.to_caller_bytes if hasattr(call, "_cancelled") else self._world.options.to_broker_bytes
                if unread > window + len(message) + MESSAGE_COST:
                    case = f"call {call.number} holds {unread} bytes that nobody has taken, its window has {window}"
                    self._ledger.breaks("unread_bytes_are_bounded", case)
            return accepted

        return received

    def _waits(self, original: Any) -> Any:
        """A sender is about to wait for room, or to learn why there will be none."""

        def check_writable(call: NativeCall) -> None:
            original(call)
            if call.connection is not None:
                self._sometimes("sender waited for credit", call._credit <= 0)
                self._sometimes("sender waited for the kernel", call._credit > 0 and not call.connection.writable)
                if call._credit <= 0:
                    self._world.loop.outside_later(CREDIT_SECONDS, self._expect_credit, call, call._credit)

        return check_writable

    def _expect_credit(self, call: Any, credit: int) -> None:
        """Where everything was taken, credit has come back."""
        socket = call.connection.simulated if call.connection is not None else None
        if socket is None or call._credit != credit or not socket.connection.is_whole:
            return
        other = socket.connection.other(socket)
        peer = other.protocol.calls.get(call.number) if other.protocol is not None else None
        quiet = socket.is_quiet and other.is_quiet
        if peer is None or peer._inbox or peer._held is not None or not quiet or call._error is not None:
            return
        self._ledger.breaks("credit_comes_back", f"call {call.number} of {socket.life.name} waits for credit, and its receiver is idle")

    def _gives_up(self, original: Any) -> Any:
        def give_up(connection: Any, why: str) -> None:
            self._ledger.breaks("nobody_breaks_the_protocol", f"{connection.simulated.life.name} was told: {why}")
            original(connection, why)

        return give_up

    def _tell(self, original: Any) -> Any:
        def tell(connection: Any, number: int, error: errors.Error) -> None:
            if number:
                self._ledger.told(connection.simulated.connection, number, error)
            original(connection, number, error)

        return tell
