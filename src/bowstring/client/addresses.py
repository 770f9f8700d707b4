"""Where brokers are: `bowstring://host[:27769][,host2…]`, or a list of such."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from bowstring import errors

PORT: Final = 27769
DEFAULT: Final = "bowstring://localhost"
_HINT: Final = "Right would be 'bowstring://localhost:27769', or several hosts with commas between."
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")


def seeds(server: str | Sequence[str] | None, environment: Mapping[str, str]) -> list[str]:
    """The places to try, in order, as host:port. Without a server it is BOWSTRING_SERVER, and without that this machine."""
    if server is None:
        server = environment.get("BOWSTRING_SERVER") or DEFAULT
    given = [server] if isinstance(server, str) else list(server)
    found = [place for address in given for place in _places(address)]
    if not found:
        raise errors.InvalidArgument("server=[] names no broker.", hint=_HINT)
    return list(dict.fromkeys(found))


def _places(address: object) -> list[str]:
    if not isinstance(address, str):
        raise errors.InvalidArgument(f"server={address!r} is not an address.", hint=_HINT)
    if address.startswith("unix:"):
        return [address]
    scheme, separator, rest = address.rpartition("://")
    if scheme == "bowstrings":
        raise errors.NotSupported(f"server={address!r} asks for TLS, which this version does not have.", hint="Use 'bowstring://'.")
    if separator and scheme != "bowstring":
        raise errors.InvalidArgument(f"server={address!r} has the scheme '{scheme}'.", hint=_HINT)
    return [_place(place.strip(), address) for place in rest.rstrip("/").split(",")]


def _place(place: str, address: str) -> str:
    match = _PLACE.fullmatch(place)
    port = int((match and match["port"]) or PORT)
    if match is None or not 0 < port < 65536:
        raise errors.InvalidArgument(f"server={address!r} is not an address: '{place}' is no host with a port.", hint=_HINT)
    return f"{match['host']}:{port}"
