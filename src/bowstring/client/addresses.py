"""Where brokers are: `bowstring://host[:27769][,host2…]`, or a list of such. `grpc://` reaches the
same brokers over gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bowstring import errors

PORT: Final = 27769
_HINT: Final = "Use 'bowstring://localhost:27769', or several hosts with commas between."
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")


def seeds(server: object, shown: str = "server=") -> list[str]:
    """The addresses to try, in order, as host:port. `shown` is the caller's name for the
    argument."""
    if not isinstance(server, str) and (not isinstance(server, Sequence) or isinstance(server, bytes | bytearray | memoryview)):
        raise errors.InvalidArgument(f"{shown}{server!r} is of type {type(server).__name__}.", hint=_HINT)
    given = [server] if isinstance(server, str) else list(server)
    found = [place for address in given for place in _places(address, shown)]
    if not found:
        raise errors.InvalidArgument(f"{shown}{server!r} names no broker.", hint=_HINT)
    return list(dict.fromkeys(found))


def _places(address: object, shown: str) -> list[str]:
    if not isinstance(address, str):
        raise errors.InvalidArgument(f"{shown}{address!r} is not an address.", hint=_HINT)
    if address.startswith("unix:"):
        return [address]
    scheme, separator, rest = address.rpartition("://")
    if scheme == "bowstrings":
        raise errors.NotSupported(f"{shown}{address!r} asks for TLS, which this version does not have.", hint="Use 'bowstring://'.")
    if separator and scheme not in ("bowstring", "grpc"):
        raise errors.InvalidArgument(f"{shown}{address!r} has the scheme '{scheme}'.", hint=_HINT)
    prefix = "grpc://" if scheme == "grpc" else ""
    return [prefix + _place(place.strip(), address, shown) for place in rest.rstrip("/").split(",")]


def _place(place: str, address: str, shown: str) -> str:
    match = _PLACE.fullmatch(place)
    port = int((match and match["port"]) or PORT)
    if match is None or not 0 < port < 65536:
        raise errors.InvalidArgument(f"{shown}{address!r} is not an address: '{place}' is no host with a port.", hint=_HINT)
    return f"{match['host']}:{port}"
