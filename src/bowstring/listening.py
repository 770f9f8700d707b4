"""Where a broker listens: `host:port`, `[host]:port` for IPv6, or `unix:/path`; port 0 takes any
free one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bowstring import errors

UNIX: Final = "unix:"
_HINT: Final = 'Use "127.0.0.1:27769", "[::1]:27769", "0.0.0.0:0" or "unix:/path".'


class ListeningPlace(NamedTuple):
    """A host of this machine, without brackets, and a port."""

    host: str
    port: int


def parse(listen: str, shown: str = "listen", hint: str = _HINT) -> ListeningPlace | None:
    """Host and port; None for a Unix socket. Raises InvalidArgument; `shown` is the user's name for
    the setting.
    """
    if listen.startswith(UNIX) and len(listen) > len(UNIX):
        return None
    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = bool(colon) and port.isascii() and port.isdecimal() and int(port) <= 65535
    if is_port and not host:
        say = f'Use "127.0.0.1:{port}" for this machine alone, or "0.0.0.0:{port}" for everyone who reaches it.'
        raise errors.InvalidArgument(f'{shown} = "{listen}" does not say on which address.', hint=say)
    if not is_port or not bare or (":" in bare and not host.startswith("[")):
        raise errors.InvalidArgument(f'{shown} = "{listen}" is not an address.', hint=hint)
    return ListeningPlace(bare, int(port))


def served_at(listen: str, port: int) -> str:
    """Where a broker listens that was given this address and got this port."""
    place = parse(listen)
    return listen if place is None else f"{listen.rpartition(':')[0]}:{port}"


def is_local(listen: str) -> bool:
    """Whether only programs on this machine can connect there."""
    place = parse(listen)
    if place is None or place.host == "localhost":
        return True
    try:
        import ipaddress

        return ipaddress.ip_address(place.host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def for_clients(listen: str) -> str:
    """The address for clients on this machine, also if the broker listens everywhere."""
    if listen.startswith("unix:"):
        return listen
    host, _, port = listen.rpartition(":")
    home = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"bowstring://{home}:{port}"
