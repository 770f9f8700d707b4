"""The frames of the native transport, without a socket and without a clock: bytes in, frames out.

    preface    00 "BOWSTR" version 0D 0A 0D 0A              12 bytes, first from the client, then
                                                            from the broker
    frame      length u32 | call u32 | kind u8 | flags u8 | zero u16      12 bytes, little-endian,
               then `length` bytes of payload

    kind          payload                                   sent by
    1 OPEN        milliseconds u32, name of the call        the caller; numbers of calls rise from 1
    2 MESSAGE     a protobuf message, its batch last        both; with the flag LAST the side ends
    3 END         nothing                                   both: the side has sent everything
    4 ERROR       protobuf `Error`                          the broker; ends the call, or for call 0
                                                            the connection
    5 CANCEL      nothing                                   the caller gives the call up
    6 CREDIT      bytes u32                                 both: the receiver has taken so much
    7 PING        8 bytes                                   both
    8 PONG        the 8 bytes of the ping                   both
    9 GOODBYE     nothing                                   the broker: takes no new calls here

`docs/protocol.md` says when each may be sent. The header of a frame never changes, so a receiver
can pass over a frame that it does not know.

`FrameReader` cuts frames out of bytes. A transport asks it where the next bytes belong (`buffer`)
and says how many came (`received`). Small frames are cut out of a scratch buffer that all
connections of a loop share; nothing stays there between two calls. The rest of a large message goes
straight into memory of its own, which ends at a multiple of 64: a batch is the end of its message,
so Arrow finds it aligned. The reader refuses what no receiver should hold: a payload that is longer
than its kind allows, and a message beyond the limit, whose bytes it passes over.
"""

from __future__ import annotations

import struct
from typing import Final

from bowstring.ports.disk import Buffer

MAGIC: Final = b"\0BOWSTR"
VERSION: Final = 1
"""The version of the frames that this software speaks."""
LINES: Final = b"\r\n\r\n"
"""The end of the preface: a web server takes it for the end of a request, and answers at once."""
PREFACE: Final = MAGIC + bytes((VERSION,)) + LINES

OPEN, MESSAGE, END, ERROR, CANCEL, CREDIT, PING, PONG, GOODBYE = range(1, 10)
GREETED, FOREIGN, BROKEN, TOO_LARGE, UNKNOWN = range(256, 261)
"""What the reader reports beside frames. GREETED: the preface came, the payload is its version.
FOREIGN: these first bytes are no preface. BROKEN: nothing can be read any more, the payload says
why. TOO_LARGE: a message of this call was passed over, the payload is its length. UNKNOWN: a frame
was passed over, its kind stands in the place of the flags."""

LAST: Final = 1
"""The flag of a message behind which this side sends nothing more."""

HEADER: Final = struct.Struct("<IIBBH")
HEADER_BYTES: Final = HEADER.size
NUMBER: Final = struct.Struct("<I")

METHOD_BYTES_MAX: Final = 64
_PAYLOAD: Final = {
    OPEN: (5, 4 + METHOD_BYTES_MAX),
    END: (0, 0),
    ERROR: (0, 16 * 1024),
    CANCEL: (0, 0),
    CREDIT: (4, 4),
    PING: (8, 8),
    PONG: (8, 8),
    GOODBYE: (0, 0),
}
"""The lengths that a payload may have, by kind."""
UNKNOWN_BYTES_MAX: Final = 16 * 1024

SCRATCH_BYTES: Final = 64 * 1024
LARGE_BYTES: Final = 16 * 1024
"""From here on a message that has not arrived as a whole gets memory of its own."""
_ALIGNMENT: Final = 64

Frame = tuple[int, int, int, Buffer]
"""Kind, call, flags and payload."""


def frame(kind: int, call: int, payload: bytes = b"") -> bytes:
    """The bytes of a frame that is not a message."""
    return HEADER.pack(len(payload), call, kind, 0, 0) + payload


def opening(call: int, method: str, milliseconds: int) -> bytes:
    """The frame that opens a call, whose caller waits for so long; 0 means without an end."""
    return frame(OPEN, call, NUMBER.pack(min(milliseconds, 0xFFFFFFFF)) + method.encode())


class Scratch:
    """The receive buffer that the connections of one loop share."""

    __slots__ = ("memory", "view")

    def __init__(self) -> None:
        self.memory = bytearray(SCRATCH_BYTES)
        self.view = memoryview(self.memory)


class FrameReader:
    """Cuts the bytes of one connection into frames."""

    __slots__ = ("_done", "_greeted", "_large", "_large_at", "_large_to", "_max", "_rest", "_scratch", "_skip")

    def __init__(self, scratch: Scratch, *, message_bytes_max: int) -> None:
        self._scratch = scratch
        self._max = message_bytes_max
        self._greeted = False
        self._done = False
        """Nothing is read any more."""
        self._rest = b""
        """The beginning of a frame that has not arrived as a whole."""
        self._large: memoryview | None = None
        """A large message that is arriving."""
        self._large_at = 0
        self._large_to = (0, 0)
        """The call and the flags of that message."""
        self._skip = 0
        """Bytes to pass over."""

    @property
    def is_within(self) -> bool:
        """Whether a part of a frame has arrived and the rest has not."""
        return self._large is not None or bool(self._rest) or bool(self._skip)

    def buffer(self) -> memoryview:
        """Where the next bytes belong."""
        if self._large is not None:
            return self._large[self._large_at :]
        if self._rest:
            self._scratch.memory[: len(self._rest)] = self._rest
            return self._scratch.view[len(self._rest) :]
        return self._scratch.view

    def received(self, count: int) -> list[Frame]:
        """So many bytes are in the buffer: gives the frames that are complete with them."""
        frames: list[Frame] = []
        if self._large is not None:
            self._received_large(self._large, count, frames)
            return frames
        end = len(self._rest) + count
        self._rest = b""
        position = 0 if self._greeted else self._preface(end, frames)
        if self._greeted and not self._done:
            passed = min(self._skip, end - position)
            self._skip -= passed
            self._cut(position + passed, end, frames)
        return frames

    def _preface(self, end: int, frames: list[Frame]) -> int:
        """Reads the preface; gives where the first frame begins."""
        given = self._scratch.view[: min(end, len(PREFACE))].tobytes()
        if self._done:
            pass
        elif given[: len(MAGIC)] != MAGIC[: len(given)] or not LINES.startswith(given[len(MAGIC) + 1 :]):
            self._done = True
            frames.append((FOREIGN, 0, 0, self._scratch.view[:end].tobytes()))
        elif len(given) < len(PREFACE):
            self._rest = given
        else:
            self._greeted = True
            frames.append((GREETED, 0, 0, given[len(MAGIC) : len(MAGIC) + 1]))
        return len(PREFACE)

    def _cut(self, position: int, end: int, frames: list[Frame]) -> None:
        """Cuts the scratch buffer into frames, from one position to another."""
        view, unpack = self._scratch.view, HEADER.unpack_from
        while end - position >= HEADER_BYTES:
            length, call, kind, flags, _ = unpack(view, position)
            start = position + HEADER_BYTES
            position = start + length
            if kind == MESSAGE and length <= self._max:
                if position > end:
                    if length < LARGE_BYTES:
                        position = start - HEADER_BYTES
                        break
                    return self._begin_large(call, flags, view[start:end], length)
                frames.append((MESSAGE, call, flags, view[start:position].tobytes()))
            elif (bounds := _PAYLOAD.get(kind)) is not None and bounds[0] <= length <= bounds[1]:
                if position > end:
                    position = start - HEADER_BYTES
                    break
                frames.append((kind, call, flags, view[start:position].tobytes()))
            elif not self._pass_over(kind, call, length, frames):
                return None
            elif position > end:
                self._skip = position - end
                return None
        self._rest = view[position:end].tobytes()
        return None

    def _pass_over(self, kind: int, call: int, length: int, frames: list[Frame]) -> bool:
        """Reports a frame that is too long or unknown. False if reading cannot go on."""
        if kind == MESSAGE:
            frames.append((TOO_LARGE, call, 0, NUMBER.pack(length)))
        elif kind not in _PAYLOAD and length <= UNKNOWN_BYTES_MAX:
            frames.append((UNKNOWN, call, kind, b""))
        else:
            self._done = True
            frames.append((BROKEN, call, 0, f"a frame of kind {kind} has {length} bytes".encode()))
            return False
        return True

    def _begin_large(self, call: int, flags: int, begun: memoryview, length: int) -> None:
        import pyarrow as pa  # a command that lists topics does without it

        before = -length % _ALIGNMENT
        self._large = memoryview(pa.allocate_buffer(before + length)).cast("B")[before:]
        self._large[: len(begun)] = begun
        self._large_at = len(begun)
        self._large_to = call, flags

    def _received_large(self, large: memoryview, count: int, frames: list[Frame]) -> None:
        self._large_at += count
        if self._large_at == len(large):
            self._large = None
            call, flags = self._large_to
            frames.append((MESSAGE, call, flags, large.toreadonly()))
