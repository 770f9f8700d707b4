"""Asks the system whether it can listen on an address: grpcio does not say why it cannot."""

from __future__ import annotations

import errno
import socket

from bowstring import errors, listening


def probe(listen: str) -> None:
    """Raises an error if the address is not available. Does not check Unix sockets."""
    place = listening.parse(listen)
    if place is None:
        return
    host, port = place
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probing:
            probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probing.bind(address)
            probing.listen()
    except socket.gaierror:
        hint = "Use an address of this machine, or 0.0.0.0 for all."
        raise errors.InvalidArgument(f'listen = "{listen}": there is no host {host}.', hint=hint) from None
    except OSError as error:
        raise _why(listen, host, port, error) from None


def _why(listen: str, host: str, port: int, error: OSError) -> errors.Error:
    if error.errno == errno.EADDRINUSE:
        hint = "Stop that one, or choose another port: --listen HOST:PORT."
        return errors.Unavailable(f"port {port} on {host} is in use by another program.", hint=hint)
    if error.errno == errno.EACCES:
        return errors.NotAuthorised(f"this user may not listen on port {port}.", hint="Choose a port above 1023.")
    if error.errno == errno.EADDRNOTAVAIL:
        return errors.InvalidArgument(f'listen = "{listen}": {host} is not an address of this machine.', hint="0.0.0.0 listens on all.")
    return errors.Unavailable(f"the broker cannot listen on {listen}: {error.strerror}.")
