"""Sockets of this machine: where a broker listens, and the way to one.

Errors are in the words of a person: why an address cannot be listened on, why a broker cannot be
reached.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from bowstring import errors, listening
from bowstring.wire import forks

BACKLOG: Final = 1024
"""Connections that may wait to be accepted."""

SILENT: Final = "something listens there but does not answer"
HANGS_UP: Final = "something listens there but hangs up"
_REASONS: Final = {
    errno.ECONNREFUSED: "nothing listens there",
    errno.ENOENT: "there is no such socket",
    errno.ECONNRESET: HANGS_UP,
    errno.ENETUNREACH: "there is no way to that network",
    errno.EHOSTUNREACH: "there is no way to that host",
}

Protocol = Callable[[], asyncio.BaseProtocol]


def bind(listen: str) -> socket.socket:
    """A socket that listens at host:port or unix:path. Raises an error that says why it cannot."""
    place = listening.parse(listen)
    bound = _bind_unix(listen) if place is None else _bind_port(listen, *place)
    forks.parents_own(bound)
    return bound


def _bind_port(listen: str, host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror:
        hint = "Use an address of this machine, or 0.0.0.0 for all."
        raise errors.InvalidArgument(f'listen = "{listen}": there is no host {host}.', hint=hint) from None
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise _why(listen, host, port, error) from None
    return bound


def probe(listen: str) -> None:
    """Raises an error if the address is not available. Does not check Unix sockets."""
    if listening.parse(listen) is not None:
        bind(listen).close()


def port(bound: socket.socket) -> int:
    """The port of a socket; 0 for a Unix socket."""
    return 0 if bound.family == socket.AF_UNIX else bound.getsockname()[1]


async def serve(bound: socket.socket, protocol: Protocol) -> asyncio.Server:
    """Gives each connection to this socket a protocol."""
    loop = asyncio.get_running_loop()
    make: Any = loop.create_unix_server if bound.family == socket.AF_UNIX else loop.create_server
    return await make(lambda: _noted(protocol()), sock=bound, backlog=BACKLOG)


async def connect(protocol: Protocol, address: str) -> object:
    """Connects a protocol to host:port or unix:path. Raises OSError; `reason` has its words."""
    loop = asyncio.get_running_loop()
    if address.startswith(listening.UNIX):
        return await loop.create_unix_connection(lambda: _noted(protocol()), address.removeprefix(listening.UNIX))
    host, _, number = address.rpartition(":")
    return await loop.create_connection(lambda: _noted(protocol()), host.removeprefix("[").removesuffix("]"), int(number))


def _noted(protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
    forks.parents_own(protocol)
    return protocol


async def connect_as(protocol: Protocol, path: str, name: str) -> object:
    """Connects a protocol to a Unix socket under a name, which the other side sees where the system
    has such names. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    if sys.platform != "linux":
        return await loop.create_unix_connection(protocol, path)
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        connected.bind(b"\0" + name.encode())
        await loop.sock_connect(connected, path)
        return await loop.create_unix_connection(protocol, sock=connected)
    except BaseException:
        connected.close()
        raise


def shown(peer: object) -> str:
    """An address as people write it; a Unix socket has none."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return listening.UNIX
    host, number = str(peer[0]), peer[1]
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def reason(error: OSError) -> str:
    """Why a connection could not be made."""
    if isinstance(error, TimeoutError):
        return SILENT
    if isinstance(error, socket.gaierror):
        return "there is no host of that name"
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def _bind_unix(listen: str) -> socket.socket:
    path = listen.removeprefix(listening.UNIX)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.stat(path).st_mode):  # left behind by a process that was killed
                os.unlink(path)
        bound.bind(path)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        hint = "Does the folder exist, and may this user write there?"
        raise errors.Unavailable(f"the broker cannot listen on {listen}.", hint=hint) from None
    return bound


def _why(listen: str, host: str, number: int, error: OSError) -> errors.Error:
    if error.errno == errno.EADDRINUSE:
        hint = "Stop that one, or choose another port: --listen HOST:PORT."
        return errors.Unavailable(f"port {number} on {host} is in use by another program.", hint=hint)
    if error.errno == errno.EACCES:
        return errors.NotAuthorised(f"this user may not listen on port {number}.", hint="Choose a port above 1023.")
    if error.errno == errno.EADDRNOTAVAIL:
        return errors.InvalidArgument(f'listen = "{listen}": {host} is not an address of this machine.', hint="0.0.0.0 listens on all.")
    return errors.Unavailable(f"the broker cannot listen on {listen}: {error.strerror}.")
