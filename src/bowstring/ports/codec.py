"""How the values of calls travel: one form of messages for all calls, such as protobuf.

Handlers and sessions of the gateway take and give values. A codec stands between them and the bytes
of a transport, and is the only place that knows how a message looks. It refuses bytes that are not
a message of its form, and checks nothing else: whether values make sense is for the broker to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bowstring.ports.disk import Buffer


class CallForm(NamedTuple):
    """How the messages of one call look."""

    decode: Callable[[Buffer], Any]
    """Makes the value of a request. Raises InvalidArgument for what is not one. It may hold a view
    into the bytes."""
    encode: Callable[[Any], Any]
    """Makes the message of an answer: bytes, or on a stream perhaps pieces
    (`ports.transport.Pieces`)."""


Codec = Mapping[str, CallForm]
"""The form of every call, by its name in the table of calls."""
