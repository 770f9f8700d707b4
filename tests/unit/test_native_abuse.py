"""Peers of a native server that break its rules or are slow: each costs bounded memory, gets a typed error or a clean end with a line in
the log, and disturbs nobody else. Time is virtual, and there are no sockets.
"""

from __future__ import annotations

import asyncio

import pytest

from bowstring import errors
from bowstring.wire import native_frames as frames
from bowstring.wire.native_connection import CONTROL_FRAMES_MAX
from bowstring.wire.native_frames import PREFACE
from bowstring.wire.native_server import CALLS_BESIDE, PATIENCE, REFUSALS_MAX
from bowstring.wire.stream_limits import message_bytes_max
from tests.unit.memory_transport import Peer, credit, error_of, message
from tests.unit.native_scene import STREAMS_MAX, Scene
from tests.unit.virtual_time import on_virtual_time

PING = frames.frame(frames.PING, 0, bytes(8))


def ended_with(answers: list[frames.Frame]) -> errors.Error:
    """The error that ended a connection, which is the last that it is told."""
    assert answers[-1][:2] == (frames.ERROR, 0)
    return error_of(answers[-1])


# ---- slow peers


@on_virtual_time
async def test_a_peer_that_does_not_say_what_it_speaks_is_ended():
    scene = Scene()
    silent, slow = Peer(scene.server, greets=False), Peer(scene.server, greets=False)
    for byte in PREFACE[:-1]:
        slow.send(bytes([byte]))
        await asyncio.sleep(PATIENCE.preface / len(PREFACE))
    assert not slow.transport.is_closed
    await asyncio.sleep(PATIENCE.preface / 4)
    assert slow.transport.is_lost
    assert silent.transport.is_lost
    assert scene.lines.problems() == ["it did not say within 10 s what it speaks"] * 2


@on_virtual_time
async def test_a_frame_that_is_never_finished_ends_its_connection():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(frames.opening(1, "Publish", 0), message(1, bytes(100))[:50])
    for _ in range(int(PATIENCE.frame / 10) - 1):
        peer.send(b"x")
        await asyncio.sleep(10)
    assert not peer.transport.is_closed
    peer.send(b"x")
    await asyncio.sleep(PATIENCE.silent + 15)
    assert peer.transport.is_lost
    assert "a frame was not complete after 300 s" in str(ended_with(await peer.answers()))
    assert scene.lines.problems() == ["a frame was not complete after 300 s"]
    assert scene.leaves_nothing()


@on_virtual_time
async def test_a_request_that_never_comes_ends_its_call_and_no_other():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(frames.opening(1, "Hello", 0))
    for _ in range(8):
        peer.send(PING)
        await asyncio.sleep(10)
    answers = [frame for frame in await peer.answers() if frame[0] != frames.PONG]
    assert [frame[1] for frame in answers] == [1]
    assert "did not come within 30 s" in str(error_of(answers[0]))
    peer.send(frames.opening(2, "Hello", 0), message(2, b"now", last=True))
    assert (frames.MESSAGE, 2, frames.LAST, b"now") in await peer.answers()


@on_virtual_time
async def test_a_peer_that_is_gone_without_a_word_is_asked_and_then_given_up():
    scene = Scene()
    peer, alive = Peer(scene.server), Peer(scene.server)
    peer.send(frames.opening(1, "Publish", 0))
    await asyncio.sleep(PATIENCE.silent + 1)
    assert frames.PING in [frame[0] for frame in await peer.answers()]
    alive.send(frames.frame(frames.PONG, 0, bytes(8)))
    await asyncio.sleep(PATIENCE.patient)
    assert peer.transport.is_lost
    assert not alive.transport.is_closed
    assert scene.leaves_nothing()


# ---- floods


@on_virtual_time
async def test_calls_that_are_opened_and_cancelled_in_a_row_are_bounded_and_leave_nothing():
    scene = Scene()
    peer = Peer(scene.server)
    calls = CALLS_BESIDE + STREAMS_MAX
    for number in range(1, 2 * calls, 2):
        peer.send(*_reset(number))
    assert len(scene.server.tasks) == calls
    assert scene.server.limits.streams == STREAMS_MAX
    assert await scene.is_answered()
    assert len(await peer.answers()) == calls - STREAMS_MAX + calls - CALLS_BESIDE  # as many were refused
    assert scene.leaves_nothing()
    for number in range(1001, 20_001, 2):
        peer.send(*_reset(number))
    assert len(scene.server.tasks) == calls
    assert "more than 1000 calls a second that are refused" in str(ended_with(await peer.answers()))
    assert scene.leaves_nothing()


def _reset(number: int) -> tuple[bytes, ...]:
    """Opens and cancels a unary call and a stream."""
    unary = frames.opening(number, "Hello", 0) + message(number, b"wait", last=True)
    cancels = frames.frame(frames.CANCEL, number) + frames.frame(frames.CANCEL, number + 1)
    return unary, frames.opening(number + 1, "Publish", 0), cancels


@on_virtual_time
async def test_a_peer_that_goes_on_opening_calls_that_are_refused_is_ended():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(*(frames.opening(number, "Dance", 0) for number in range(1, REFUSALS_MAX + 1)))
    assert len(await peer.answers()) == REFUSALS_MAX
    await asyncio.sleep(1)
    peer.send(*(frames.opening(2000 + number, "Dance", 0) for number in range(REFUSALS_MAX + 50)))
    answers = await peer.answers()
    assert len(answers) == REFUSALS_MAX + 2
    assert isinstance(ended_with(answers), errors.InvalidArgument)
    assert scene.lines.problems() == ["it opens more than 1000 calls a second that are refused"]


@on_virtual_time
async def test_calls_beyond_the_limit_are_refused_until_others_end():
    scene = Scene()
    peer = Peer(scene.server)
    for number in range(1, CALLS_BESIDE + 2):
        peer.send(frames.opening(number, "Hello", 0))
    (refused,) = await peer.answers()
    assert refused[1] == CALLS_BESIDE + 1
    assert "100 calls under way already" in str(error_of(refused))
    peer.send(message(1, b"first", last=True))
    await peer.answers()
    peer.send(frames.opening(1000, "Hello", 0), message(1000, b"again", last=True))
    assert await peer.answers() == [(frames.MESSAGE, 1000, frames.LAST, b"again")]
    peer.send(*(frames.opening(2000 + number, "Publish", 0) for number in range(STREAMS_MAX + 1)))
    (refused,) = await peer.answers()
    assert refused[1] == 2000 + STREAMS_MAX
    assert "connection.streams-max" in str(error_of(refused))


@on_virtual_time
async def test_requests_are_bounded_in_bytes_over_all_calls_of_a_connection():
    scene = Scene()
    peer = Peer(scene.server)
    most = message_bytes_max(1 << 20)
    peer.send(*(frames.opening(number, "Hello", 0) for number in (1, 2, 3)))
    peer.send(message(1, bytes(most - 10)), message(2, bytes(10)), message(3, b"x", last=True))
    (refused,) = await peer.answers()
    assert refused[1] == 3
    assert "are not answered have" in str(error_of(refused))
    peer.send(frames.frame(frames.CANCEL, 1), frames.opening(4, "Hello", 0), message(4, bytes(most - 10), last=True))
    ((kind, number, *_),) = await peer.answers()
    assert (kind, number) == (frames.MESSAGE, 4)


@on_virtual_time
async def test_a_peer_that_does_not_read_is_answered_only_so_often():
    scene = Scene()
    peer, pinging = Peer(scene.server), Peer(scene.server)
    await asyncio.gather(peer.answers(), pinging.answers())
    peer.served.pause_writing()
    pinging.served.pause_writing()
    for number in range(1, CONTROL_FRAMES_MAX + 1):
        peer.send(frames.opening(number, "Publish", 0), credit(number, 0))  # a call that ends with an error
        await asyncio.sleep(0)
    assert not peer.transport.is_closed
    peer.send(frames.opening(CONTROL_FRAMES_MAX + 1, "Publish", 0), credit(CONTROL_FRAMES_MAX + 1, 0))
    assert peer.transport.is_closed
    pinging.send(PING * 100_000)
    assert await pinging.answers() == []
    pinging.served.resume_writing()
    assert await pinging.answers() == [(frames.PONG, 0, 0, bytes(8))]
    assert await scene.is_answered()


@on_virtual_time
async def test_connections_beyond_the_limit_are_refused_with_a_line_in_the_log():
    scene = Scene(connections_max=3)
    peers = [Peer(scene.server) for _ in range(3)]
    await asyncio.sleep(0)
    assert [peer.transport.is_closed for peer in peers] == [False, False, True]
    assert scene.lines.problems() == ["connections.max"]
    peers[0].end()
    await asyncio.sleep(0)
    assert not Peer(scene.server).transport.is_closed
    assert await scene.is_answered()


# ---- rules that are broken


BROKEN = {
    "a message for a call that never was": (message(7, b"x"), "a message for a call that it has not opened (call 7)"),
    "a number that was used": (frames.opening(5, "Hello", 0) * 2, "numbers of its calls do not rise (call 5 after call 5)"),
    "a number that falls": (frames.opening(5, "Hello", 0) + frames.opening(4, "Hello", 0), "do not rise (call 4 after call 5)"),
    "call zero": (frames.opening(0, "Hello", 0), "do not rise (call 0 after call 0)"),
    "an open without a name": (frames.frame(frames.OPEN, 1, bytes(4)), "kind 1 has 4 bytes"),
    "a name without an end": (frames.opening(1, "D" * 65, 0), "kind 1 has 69 bytes"),
    "a credit of three bytes": (frames.frame(frames.CREDIT, 1, bytes(3)), "kind 6 has 3 bytes"),
    "a ping without bytes": (frames.frame(frames.PING, 0), "kind 7 has 0 bytes"),
    "an end with bytes": (frames.frame(frames.END, 1, b"x"), "kind 3 has 1 bytes"),
    "an unknown frame that is long": (frames.frame(99, 1, bytes(16 * 1024 + 1)), "kind 99 has 16385 bytes"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_connection_that_breaks_the_rules_is_told_and_ended(case: str):
    sent, words = BROKEN[case]

    @on_virtual_time
    async def story() -> None:
        scene = Scene()
        peer = Peer(scene.server)
        peer.send(sent)
        error = ended_with(await peer.answers())
        assert words in str(error)
        assert isinstance(error, errors.InvalidArgument)
        assert peer.transport.is_lost
        (problem,) = scene.lines.problems()
        assert not any(character.isdigit() for character in str(problem))  # or each would be a line of its own
        assert await scene.is_answered()
        assert scene.leaves_nothing()

    story()


OF_ONE_CALL = {
    "a message after the end": (frames.frame(frames.END, 1) + message(1), "InvalidArgument: a message came after the end"),
    "a message after the last": (message(1, last=True) + message(1), "InvalidArgument: a message came after the end"),
    "a credit of zero": (credit(1, 0), "InvalidArgument: a credit is above zero"),
    "too much credit": (credit(1, 2**31 - 1), "InvalidArgument: a credit is above zero, and at most 2 GiB in all"),
    "a message that is too large": (message(1, bytes((1 << 20) + 65_537)), "TooLarge: the message has 1114113 bytes, at most 1114112"),
    "an unknown kind": (frames.frame(42, 1, b"what?"), "NotSupported: this broker takes no frames of kind 42"),
    "an error of the caller": (frames.frame(frames.ERROR, 1), "NotSupported: this broker takes no frames of kind 4"),
    "a goodbye of the caller": (frames.frame(frames.GOODBYE, 1), "NotSupported: this broker takes no frames of kind 9"),
}


@pytest.mark.parametrize("case", OF_ONE_CALL)
def test_a_call_that_breaks_the_rules_ends_alone(case: str):
    sent, words = OF_ONE_CALL[case]

    @on_virtual_time
    async def story() -> None:
        scene = Scene()
        peer = Peer(scene.server)
        peer.send(frames.opening(1, "Publish", 0), frames.opening(2, "Publish", 0))
        await peer.answers()
        peer.send(sent)
        (answer,) = await peer.answers()
        error = error_of(answer)
        assert f"{type(error).__name__}: {error}".startswith(words)
        assert answer[1] == 1
        assert scene.server.limits.streams == 1
        peer.send(message(1, b"late"), credit(1, 5), frames.frame(frames.END, 1), frames.frame(frames.CANCEL, 1))
        peer.send(message(2, b"unharmed"), frames.frame(frames.END, 2))
        assert await peer.answers() == [(frames.END, 2, 0, b"")]
        assert scene.leaves_nothing()

    story()


@on_virtual_time
async def test_requests_of_no_message_and_of_two_are_refused():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(frames.opening(1, "Hello", 0), frames.frame(frames.END, 1))
    assert "takes one request, none came" in str(error_of((await peer.answers())[0]))
    peer.send(frames.opening(2, "Hello", 0), message(2, b"a"), message(2, b"b", last=True))
    (answer,) = await peer.answers()
    assert "takes one request, more came" in str(error_of(answer))
    peer.send(frames.opening(3, "Hello", 0), message(3, b"a"), frames.frame(frames.END, 3))
    assert await peer.answers() == [(frames.MESSAGE, 3, frames.LAST, b"a")]


@on_virtual_time
async def test_an_unknown_call_is_refused_by_a_name_that_cannot_forge_lines_of_a_log():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(frames.opening(1, "Dance\n2026 WARNING", 0))
    (answer,) = await peer.answers()
    assert isinstance(error_of(answer), errors.NotSupported)
    assert "\n" not in str(error_of(answer))


@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_older_version_is_refused_and_a_newer_one_gets_ours(version: int):
    @on_virtual_time
    async def story() -> None:
        scene = Scene()
        peer = Peer(scene.server, greets=False)
        peer.send(frames.MAGIC + bytes([version]) + frames.LINES, frames.opening(1, "Hello", 0), message(1, b"x", last=True))
        await asyncio.sleep(0)
        assert peer.transport.written.startswith(PREFACE)
        answers = await peer.answers()
        if version:
            assert answers == [(frames.MESSAGE, 1, frames.LAST, b"x")]
        else:
            assert isinstance(ended_with(answers), errors.NotSupported)
            assert scene.lines.problems() == ["it speaks version 0 of the frames"]
            assert peer.transport.is_lost

    story()


# ---- ends


@on_virtual_time
async def test_a_stream_ends_at_its_deadline():
    scene = Scene()
    peer = Peer(scene.server)
    peer.send(frames.opening(1, "Publish", 500))
    assert await peer.answers() == []
    await asyncio.sleep(0.6)
    (answer,) = await peer.answers()
    assert isinstance(error_of(answer), errors.Unavailable)
    assert scene.leaves_nothing()


@on_virtual_time
async def test_a_stopping_server_says_goodbye_and_refuses_what_comes_after():
    scene = Scene()
    peer, late = Peer(scene.server), Peer(scene.server, greets=False)
    peer.send(frames.opening(1, "Publish", 0), frames.opening(2, "Hello", 0))
    await peer.answers()
    stopping = asyncio.create_task(scene.server.stop(30))
    assert [frame[0] for frame in await peer.answers()] == [frames.GOODBYE]
    peer.send(frames.opening(3, "Hello", 0), message(2, b"x", last=True))
    assert [(frame[1], str(error_of(frame))) for frame in await peer.answers()] == [
        (3, "the broker is stopping."),
        (2, "the broker is stopping."),
    ]
    assert await late.answers() == []
    late.send(PREFACE)
    assert [frame[0] for frame in await late.answers()] == [frames.GOODBYE]
    peer.send(frames.frame(frames.END, 1))
    assert await peer.answers() == [(frames.END, 1, 0, b"")]
    await stopping
    assert scene.leaves_nothing()
    assert not scene.server.connections


@on_virtual_time
async def test_a_peer_that_hangs_up_at_once_leaves_no_stream_behind():
    scene = Scene()
    for _ in range(200):
        peer = Peer(scene.server)
        peer.send(frames.opening(1, "Publish", 0), frames.opening(2, "Hello", 0), message(2, b"wait", last=True))
        peer.end()
    await scene.honest.answers()
    assert scene.leaves_nothing()
    assert len(scene.server.connections) == 1
