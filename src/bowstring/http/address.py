"""Takes the port for HTTP, or says in one sentence why it cannot."""

from __future__ import annotations

import errno
import socket

from bowstring import errors, listening

BACKLOG = 128


def bind(address: str, *, exactly: bool) -> socket.socket:
    """A socket that listens at host:port. If the port is in use and was only the default, it takes
    any free port of the host.
    """
    place = listening.parse(address, "http")
    assert place is not None, "the settings take no socket for HTTP"
    host, port = place
    try:
        return _listening(host, port)
    except socket.gaierror:
        hint = "Use an address of this machine, or --http off."
        raise errors.InvalidArgument(f'http = "{address}": there is no host {host}.', hint=hint) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE and not exactly:
            return _listening(host, 0)
        raise _why(address, host, port, error) from None


def url(taken: socket.socket) -> str:
    """The address for a browser on this machine."""
    host, port, *_ = taken.getsockname()
    home: str = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host) or host
    return f"http://[{home}]:{port}" if ":" in home else f"http://{home}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


def _why(address: str, host: str, port: int, error: OSError) -> errors.Error:
    if error.errno == errno.EADDRINUSE:
        hint = "Stop that one, choose another port with --http HOST:PORT, or serve without HTTP: --http off."
        return errors.Unavailable(f"port {port} on {host}, where HTTP should be, is in use by another program.", hint=hint)
    if error.errno == errno.EACCES:
        return errors.NotAuthorised(f"this user may not serve HTTP on port {port}.", hint="Choose a port above 1023: --http HOST:PORT.")
    if error.errno == errno.EADDRNOTAVAIL:
        hint = "0.0.0.0 listens on all addresses."
        return errors.InvalidArgument(f'http = "{address}": {host} is not an address of this machine.', hint=hint)
    return errors.Unavailable(f"HTTP cannot be served on {address}: {error.strerror}.", hint="Choose another address, or --http off.")
