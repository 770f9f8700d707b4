"""Several processes on one data directory: the first serves it, the others are its guests.

A process that opens a directory which another process serves gets no error but the same broker: its
clients connect to the process that holds the lock, over the Unix socket in the directory
(`bowstring.sock`), or to the port that the lock names. No process has to know which one was first.

When the process that serves ends, well or by SIGKILL, the kernel frees the lock. A guest that finds
it free takes the directory and serves on, at the same socket and, if that is free, the same port;
the others are its guests then. Clients notice a pause: they resend the requests under way.
Everything acknowledged is on the disk. Only embedded brokers take over from each other. `bowstring
serve` is a service that an operator starts again, so its guests leave the directory to it and wait.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Final

from bowstring import errors
from bowstring.host.lock import is_served

SOCKET: Final = "bowstring.sock"
SOCKET_PATH_BYTES_MAX: Final = 100
"""Systems allow 104 to 108 bytes, with a zero at the end; a longer path has no socket, and its
guests use the port.
"""
LOOK_SECONDS: Final = 0.1


def socket_address(directory: str) -> str | None:
    """The address of the socket in a directory, if there can be one."""
    path = os.path.join(os.path.abspath(directory), SOCKET)
    return f"unix:{path}" if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX else None


class DirectorySocket:
    """The socket in a directory that this process serves. It is for this user alone, and goes with
    the broker.
    """

    def __init__(self, directory: str) -> None:
        self.address = socket_address(directory) if os.path.isdir(directory) else None

    def claim(self) -> None:
        """Restricts the socket, which exists now, to this user."""
        if self.address is not None:
            os.chmod(self.address.removeprefix("unix:"), 0o600)

    def remove(self) -> None:
        if self.address is not None:
            with suppress(OSError):
                os.unlink(self.address.removeprefix("unix:"))


class Guest:
    """A directory that another process serves."""

    def __init__(self, directory: str, conflict: errors.Conflict) -> None:
        self.directory = directory
        self.conflict = conflict
        self.holder: str = conflict.details["address"]
        """The address of the serving process, as host:port or unix:path."""
        self._takes_over = conflict.details.get("embedded") == "yes"

    @classmethod
    def of(cls, directory: str, conflict: errors.Conflict) -> Guest | None:
        """A guest, if the conflict names the host."""
        return cls(directory, conflict) if "address" in conflict.details else None

    @property
    def seeds(self) -> list[str]:
        """The address at which clients find the serving process, now and later."""
        socket = socket_address(self.directory)
        return list(dict.fromkeys(([socket] if socket else []) + [self.holder]))

    async def until_free(self) -> None:
        """Waits until no process serves the directory and this guest may: for ever, if it belongs
        to a service.
        """
        while not self._takes_over or is_served(self.directory):  # noqa: ASYNC110 -- nothing tells us that a lock of the kernel is free
            await asyncio.sleep(LOOK_SECONDS)
