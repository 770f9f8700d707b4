"""Planted bugs of the native transport: frames, credit, order, reconnecting, keepalive.

Where the other end of a connection would refuse what a bug does, the bug takes that check away:
the simulation has to find it by what goes into calls and comes out of them, by unread bytes, and by
connections that are kept or given up.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Take
from bowstring.wire import native_frames as frames
from bowstring.wire.native_call import MESSAGE_COST, NativeCall
from bowstring.wire.native_client import MESSAGE_BYTES_MAX, DialledCall, DialledConnection, NativeChannel
from bowstring.wire.native_connection import NativeConnection, Pulse
from bowstring.wire.native_frames import Frame, FrameReader
from bowstring.wire.native_server import ServedConnection
from tests.simulation.load import KIB
from tests.simulation.planting import CALM, CUTS, JOURNAL, bug

SPLIT = CALM.only(split_rate=0.3, pipe_bytes=16 * KIB)
SMALL = SPLIT.only(to_broker_bytes=4 * KIB, to_caller_bytes=4 * KIB, unsent_bytes=2 * KIB, large_bytes=2_000)
BOTH = JOURNAL.only(seconds=8.0, plain=0.5, producers=3, readers=2, pause_seconds=0.03, under_way_max=60, batches=0.3)
LARGE = BOTH.only(large=0.4, large_bytes=20 * KIB)


def _strays_pass() -> AbstractContextManager[object]:
    """A broker that says nothing when a message is for a call that was never opened."""
    return patch.object(ServedConnection, "stray", lambda *_: None)


# ---- frames ------------------------------------------------------------------------------------------------------------


@bug(SPLIT, BOTH)
def the_rest_of_a_frame_is_lost_between_two_reads() -> Generator[None]:
    """A frame whose payload has not arrived as a whole is passed over: it is neither kept nor finished."""
    cut = FrameReader._cut

    def forgetful(self: FrameReader, position: int, end: int, given: list[Frame]) -> None:
        cut(self, position, end, given)
        if len(self._rest) > frames.HEADER_BYTES and self._rest[8] == frames.MESSAGE:
            length = frames.HEADER.unpack_from(self._rest)[0]
            self._skip = frames.HEADER_BYTES + length - len(self._rest)
            self._rest = b""

    with patch.object(FrameReader, "_cut", forgetful):
        yield


@bug(SPLIT.only(large_bytes=1_000), LARGE)
def a_large_message_goes_to_the_call_of_the_next() -> Generator[None]:
    """Call and flags of a large message are kept in one place for all connections of a process."""
    begin, received = FrameReader._begin_large, FrameReader._received_large
    latest: dict[int, tuple[int, int]] = {}

    def begun(self: FrameReader, call: int, flags: int, first: memoryview, length: int) -> None:
        begin(self, call, flags, first, length)
        latest[id(self._scratch)] = call, flags

    def given(self: FrameReader, large: memoryview, count: int, arrived: list[Frame]) -> None:
        self._large_to = latest[id(self._scratch)]
        received(self, large, count, arrived)

    with _strays_pass(), patch.object(FrameReader, "_begin_large", begun), patch.object(FrameReader, "_received_large", given):
        yield


@bug(SPLIT.only(large_bytes=1_000), LARGE)
def a_large_message_is_handed_over_before_its_last_piece() -> Generator[None]:
    """The broker takes what is missing at the end of a large message for there, if it is short."""
    received = FrameReader._received_large

    def hasty(self: FrameReader, large: memoryview, count: int, arrived: list[Frame]) -> None:
        missing = len(large) - self._large_at - count
        if 0 < missing < 1_000 and self._max != MESSAGE_BYTES_MAX:
            large[-missing:] = bytes(missing)
            self._skip = missing
            count += missing
        received(self, large, count, arrived)

    with patch.object(FrameReader, "_received_large", hasty):
        yield


# ---- credit ------------------------------------------------------------------------------------------------------------


def _without_refusal(self: NativeCall, message: Buffer, last: bool) -> errors.Error | None:
    """Takes a message without looking whether there was credit for it."""
    unread, self._unread = self._unread, 0
    received = _received(self, message, last)
    self._unread += unread
    return received


_received = NativeCall.received


@bug(SMALL, BOTH)
def credit_is_returned_twice() -> Generator[None]:
    """Every credit is sent once more with the next: a sender gets twice what was taken."""
    send = NativeConnection.send_credit

    def twice(self: NativeConnection, number: int, credit: int) -> None:
        send(self, number, 2 * credit)

    with patch.object(NativeConnection, "send_credit", twice), patch.object(NativeCall, "received", _without_refusal):
        yield


@bug(SMALL.only(sync_seconds=0.1), BOTH.only(plain=1.0, pause_seconds=0.01, readers=1, publish_bytes=8 * KIB, window_bytes=4 * KIB))
def credit_is_returned_before_the_message_is_taken() -> Generator[None]:
    """A message counts as taken when it has arrived: what a slow program does not take heaps up."""
    taken = NativeCall._taken

    def received(self: NativeCall, message: Buffer, last: bool) -> errors.Error | None:
        arrived = _received(self, message, last)
        taken(self, message)
        return arrived

    def hand_out(self: NativeCall, message: Buffer) -> None:
        pass

    with patch.object(NativeCall, "received", received), patch.object(NativeCall, "_taken", hand_out):
        yield


@bug(SMALL, BOTH)
def a_message_that_was_handed_over_gives_no_credit_back() -> Generator[None]:
    """`each` forgets it: after a window of bytes the sender waits for ever."""
    hand_over = NativeCall._hand_over

    def forgetful(self: NativeCall, take: Take, message: Buffer) -> None:
        self._owed -= len(message) + MESSAGE_COST
        hand_over(self, take, message)

    with patch.object(NativeCall, "_hand_over", forgetful):
        yield


@bug(SMALL, BOTH)
def a_sender_ignores_its_credit() -> Generator[None]:
    """It writes while the kernel takes bytes, however little the receiver takes."""
    send = NativeCall._try_write

    def greedy(self: NativeCall, message: Any) -> bool:
        self._credit = max(self._credit, 1)
        return send(self, message)

    with patch.object(NativeCall, "_try_write", greedy), patch.object(NativeCall, "received", _without_refusal):
        yield


# ---- order -------------------------------------------------------------------------------------------------------------


@bug(SMALL, BOTH.only(mortal_topics=2, mortal_seconds=0.5))
def an_error_overtakes_messages_that_came_before_it() -> Generator[None]:
    """What has arrived and was not read is thrown away when the call ends with an error."""
    ended = NativeCall.ended

    def hasty(self: NativeCall, error: errors.Error | None = None) -> None:
        if error is not None:
            self._inbox.clear()
        ended(self, error)

    with patch.object(NativeCall, "ended", hasty):
        yield


@bug(SPLIT, BOTH.only(plain=1.0))
def a_message_is_handed_over_while_the_one_before_is_waited_for() -> Generator[None]:
    """What `each` waits for holds up only messages that have queued already."""
    received = NativeCall.received

    def impatient(self: NativeCall, message: Buffer, last: bool) -> errors.Error | None:
        held = self._held
        if not self._inbox:
            self._held = None
        accepted = received(self, message, last)
        if self._held is None:
            self._held = held
        return accepted

    with patch.object(NativeCall, "received", impatient):
        yield


@bug(SPLIT, BOTH.only(plain=1.0))
def messages_that_queued_are_handed_over_backwards() -> Generator[None]:
    """When what `each` waited for is there, the message that came last is taken first."""
    drain = NativeCall._drain

    def backwards(self: NativeCall) -> None:
        if self._held is None and self._take is not None:
            self._inbox.reverse()
        drain(self)

    with patch.object(NativeCall, "_drain", backwards):
        yield


@bug(SMALL.only(to_broker_bytes=KIB, delay_seconds=0.01), BOTH.only(plain=1.0, seconds=5.0, pause_seconds=0.01, readers=1))
def a_message_is_sent_past_one_that_waits() -> Generator[None]:
    """`try_write` looks at credit and kernel only."""

    def pushy(self: NativeCall, message: Any) -> bool:
        return self._try_write(message)

    with patch.object(NativeCall, "try_write", pushy):
        yield


# ---- calls and connections ---------------------------------------------------------------------------------------------


@bug(CUTS, BOTH.only(deletes=0.3, impatient=0.8))
def the_number_of_a_call_is_used_again() -> Generator[None]:
    """A call gets the number of one that its caller has given up, and with it what is still to come for that one."""
    opened, cancel = DialledConnection.open, DialledCall.cancel
    free: dict[int, list[int]] = {}

    def reopened(self: DialledConnection, call: DialledCall, seconds: float = 0.0) -> None:
        spare, number = free.get(id(self), []), self._number
        if spare and not self.is_over:
            self._number = spare.pop() - 1
        opened(self, call, seconds)
        self._number = max(number, self._number)

    def given_back(self: DialledCall) -> None:
        if self.connection is not None and not self._cancelled and not self._ended:
            free.setdefault(id(self.connection), []).append(self.number)
        cancel(self)

    def accepted(self: ServedConnection, number: int, payload: bytes) -> None:
        newest, self._newest = self._newest, 0
        _open(self, number, payload)
        self._newest = max(newest, number)

    _open = ServedConnection._open
    with (
        patch.object(DialledConnection, "open", reopened),
        patch.object(DialledCall, "cancel", given_back),
        patch.object(ServedConnection, "_open", accepted),
    ):
        yield


@bug(CUTS.only(cut_every=0.5, half_open=0.0), BOTH.only(plain=1.0, finds=0.5, deletes=0.5))
def calls_of_a_broken_connection_go_on_in_the_next() -> Generator[None]:
    """They keep their numbers, under which the broker knows other calls there."""
    dialled, lost, opened = NativeChannel._dialled, DialledConnection.lost, DialledConnection.open
    left: dict[int, dict[int, Any]] = {}

    def kept(self: DialledConnection, calls: list[NativeCall]) -> None:
        streams = {call.number: call for call in calls if isinstance(call, DialledCall) and call.method in ("Publish", "Fetch")}
        left[id(self._reader._scratch)] = streams
        lost(self, [call for call in calls if call.number not in streams])

    async def resumed(self: NativeChannel) -> DialledConnection:
        connection = await dialled(self)
        for number, call in left.pop(id(self._scratch), {}).items():
            connection.calls[number] = call
            call.connection = connection
        return connection

    def beside(self: DialledConnection, call: DialledCall, seconds: float = 0.0) -> None:
        older = self.calls.get(self._number + 1)
        opened(self, call, seconds)
        if older is not None:
            self.calls[call.number] = older

    with (
        _strays_pass(),
        patch.object(DialledConnection, "lost", kept),
        patch.object(NativeChannel, "_dialled", resumed),
        patch.object(DialledConnection, "open", beside),
    ):
        yield


@bug(CALM.only(delay_seconds=0.02), BOTH.only(deletes=0.5, impatient=0.9, finds=0.3))
def a_late_message_goes_to_the_newest_call() -> Generator[None]:
    """A message for a call that was given up is taken for that of the call which was opened last."""

    def adopted(self: NativeConnection, frame: Frame) -> None:
        kind, number, flags, payload = frame
        if isinstance(self, DialledConnection) and kind == frames.MESSAGE and number not in self.calls and self.calls:
            frame = kind, max(self.calls), flags, payload
        handle(self, frame)

    handle = NativeConnection._handle
    with patch.object(NativeConnection, "_handle", adopted):
        yield


@bug(CALM, BOTH.only(stop_every=1.5))
def goodbye_ends_the_calls_that_run() -> Generator[None]:
    """The broker would have finished them."""
    control = DialledConnection.control

    def hasty(self: DialledConnection, kind: int, number: int, flags: int, payload: bytes) -> None:
        control(self, kind, number, flags, payload)
        if kind == frames.GOODBYE:
            for call in tuple(self.calls.values()):
                call.ended(errors.Unavailable("the broker has said goodbye."))

    with patch.object(DialledConnection, "control", hasty):
        yield


@bug(CUTS.only(silent=1.0, keepalive=0.1), BOTH)
def a_silent_peer_is_asked_for_ever() -> Generator[None]:
    """Pings go out, and nobody looks whether they are answered."""
    beat = Pulse._beat

    def patient(self: Pulse) -> None:
        connection = self._connection
        heard, now = connection.heard, connection.loop.time()
        connection.heard = max(heard, now - self._silent)
        beat(self)
        connection.heard = heard

    with patch.object(Pulse, "_beat", patient):
        yield


@bug(CUTS, BOTH)
def a_handler_outlives_its_connection() -> Generator[None]:
    """Nobody tells the handlers of a connection that it is gone."""

    def forgotten(self: ServedConnection, calls: list[NativeCall]) -> None:
        self._leave()

    with patch.object(ServedConnection, "lost", forgotten):
        yield
