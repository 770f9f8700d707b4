"""A client in plain Python, written from docs/protocol.md alone: a socket, frames, and protobuf by hand. It imports nothing of ours.

client = PlainClient(host, port)
client.unary("CreateTopic", field(1, b"orders"))
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator

PREFACE = b"\0BOWSTR\x01\r\n\r\n"
HEADER = struct.Struct("<IIBBH")
OPEN, MESSAGE, END, ERROR, CANCEL, CREDIT, PING, PONG, GOODBYE = range(1, 10)
LAST = 1
TO_BROKER, TO_CLIENT, COST = 1 << 20, 16 << 20, 256


class Refused(Exception):
    """The broker has ended a call with an error: kind, message, hint."""


class PlainClient:
    """One connection, used by one thread."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=30)
        self._number = 0
        self._credit: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._inbox: dict[int, list[tuple[int, int, bytes]]] = {}
        self._socket.sendall(PREFACE)
        if self._exactly(12)[:7] != PREFACE[:7]:
            raise ConnectionError("this is no Bowstring broker")

    def close(self) -> None:
        self._socket.close()

    def open(self, method: str, milliseconds: int = 0) -> int:
        """Opens a call and gives its number."""
        self._number += 1
        self._credit[self._number], self._taken[self._number], self._inbox[self._number] = TO_BROKER, 0, []
        self.frame(OPEN, self._number, struct.pack("<I", milliseconds) + method.encode())
        return self._number

    def unary(self, method: str, request: bytes, milliseconds: int = 20_000) -> bytes:
        call = self.open(method, milliseconds)
        self.send(call, request, LAST)
        answer = self.read(call)
        assert answer is not None
        return answer

    def send(self, call: int, message: bytes, flags: int = 0) -> None:
        """Sends a message, when there is credit for it."""
        while self._credit[call] <= 0:
            self._receive()
        self._credit[call] -= len(message) + COST
        self.frame(MESSAGE, call, message, flags)

    def end(self, call: int) -> None:
        self.frame(END, call)

    def read(self, call: int) -> bytes | None:
        """The next message of a call; None when the broker has ended it."""
        while not self._inbox[call]:
            self._receive()
        kind, flags, payload = self._inbox[call].pop(0)
        if kind == ERROR:
            given = dict(fields(payload))
            raise Refused(*(bytes(given.get(number, b"")).decode() for number in (1, 2, 3)))
        if kind == END:
            return None
        if flags & LAST:
            self._inbox[call].append((END, 0, b""))
        else:
            self._took(call, len(payload) + COST)
        return payload

    def _took(self, call: int, size: int) -> None:
        self._taken[call] += size
        if self._taken[call] >= TO_CLIENT // 2:
            self.frame(CREDIT, call, struct.pack("<I", self._taken[call]))
            self._taken[call] = 0

    def frame(self, kind: int, call: int, payload: bytes = b"", flags: int = 0) -> None:
        self._socket.sendall(HEADER.pack(len(payload), call, kind, flags, 0) + payload)

    def _receive(self) -> None:
        """Takes one frame from the socket."""
        length, call, kind, flags, _ = HEADER.unpack(self._exactly(HEADER.size))
        payload = self._exactly(length)
        if kind == PING:
            self.frame(PONG, 0, payload)
        elif kind == ERROR and call == 0:
            raise ConnectionError(payload)
        elif kind == CREDIT:
            self._credit[call] += struct.unpack("<I", payload)[0]
        elif kind in (MESSAGE, END, ERROR) and call in self._inbox:
            self._inbox[call].append((kind, flags, payload))

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            received += more
        return bytes(received)


# Protobuf by hand: a number or bytes, and 8 fixed bytes


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes((*encoded, number))


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed(number: int, values: Iterable[int]) -> bytes:
    """An array of numbers."""
    return field(number, b"".join(map(varint, values)))


def fixed(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def number_at(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    found = shift = 0
    while True:
        found |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return found, at


def unpacked(array: int | bytes) -> list[int]:
    """The numbers of an array."""
    assert isinstance(array, bytes)
    found, at = list[int](), 0
    while at < len(array):
        number, at = number_at(array, at)
        found.append(number)
    return found


def moment(value: int | bytes) -> int:
    """A number of 8 fixed bytes."""
    assert isinstance(value, bytes)
    return int(struct.unpack("<q", value)[0])


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = number_at(message, at)
        if key & 7 == 0:
            value, at = number_at(message, at)
            yield key >> 3, value
        else:
            size, at = (8, at) if key & 7 == 1 else number_at(message, at)
            yield key >> 3, message[at : at + size]
            at += size
