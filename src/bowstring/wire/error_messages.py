"""Errors as they travel: the protobuf message `Error`, with kind, message, hint and details.

Both transports carry it: native frames as it is, gRPC beside a status code (`grpc_status`). An
answer has it where an error concerns only one batch.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from bowstring import errors
from bowstring.wire.generated import bowstring_pb2 as pb

# An error may quote what it was given, and gRPC bounds the metadata of a call at 8 KiB. All are bytes.
_MESSAGE_MAX: Final = 1500
_HINT_MAX: Final = 500
_DETAILS_MAX: Final = 1500


def to_message(error: errors.Error) -> pb.Error:
    """The error as it travels, shortened if it quotes too much."""
    message = pb.Error(kind=error.kind, message=cut(error.message, _MESSAGE_MAX), hint=cut(error.hint, _HINT_MAX))
    room = _DETAILS_MAX
    for name, value in error.details.items():
        name, value = _clean(name), _clean(str(value))
        room -= len(name.encode()) + len(value.encode())
        if room >= 0:
            message.details[name] = value
    return message


def to_bytes(error: errors.Error) -> bytes:
    """The same, serialised."""
    return serialised(to_message(error))


def serialised(message: Message) -> bytes:
    """The bytes of a message that may hold errors. Protobuf writes the entries of a map in an order
    that depends on where they lie in memory, unless it is asked to sort them.
    """
    return message.SerializeToString(deterministic=True)


def from_message(message: pb.Error, fallback: type[errors.Error] = errors.Error) -> errors.Error:
    """Makes the error that the broker has raised, in its class. A kind of a later version gets the
    nearest known class, `fallback`, and is kept among the details.
    """
    cls = errors.of_kind(message.kind)
    details = dict(sorted(message.details.items()))
    if cls is errors.Error and message.kind != errors.Error.kind:
        cls = fallback
        details["kind"] = message.kind
    return cls(message.message, hint=message.hint, details=details)


def cut(text: str, bytes_max: int) -> str:
    """The text, shortened to so many bytes."""
    text = _clean(text)
    if len(text) * 4 <= bytes_max or len(encoded := text.encode()) <= bytes_max:
        return text
    return encoded[: bytes_max - len("…".encode())].decode("utf-8", "ignore") + "…"


def _clean(text: str) -> str:
    """Text that protobuf can carry: lone surrogates, which text decoded from foreign bytes may
    have, become question marks.
    """
    return text.encode("utf-8", "replace").decode()
