"""What would keep a broker from starting, looked at without changing anything: `bowstring serve --check`.

The settings have been parsed by then. What is left is the machine: whether the address can be listened on, whether the data directory
is there or can be made, whether this user may write to it, whether there is room, and whether what lies in it is a broker's, of a format
that this software reads. A directory that a broker serves at this moment is fine, as is that broker's own port: whoever checks settings
before a restart has it running. Its contents are left alone then.
"""

from __future__ import annotations

import os
from typing import Final

from bowstring import errors
from bowstring.catalog.sqlite import file
from bowstring.host.lock import DirectoryLock
from bowstring.http import address
from bowstring.server import CATALOG, check_catalog_is_there
from bowstring.settings import OFF, Settings
from bowstring.store.reserve import RESERVE
from bowstring.wire import grpc_listening

ROOM: Final = 1 << 20
"""Bytes that a start may take: the catalog, its WAL, the lock."""


def check(settings: Settings) -> str | None:
    """Raises what keeps a broker with these settings from starting; their data directory is a whole path. Says who serves the directory
    at this moment, if a broker does."""
    if settings.store == "memory":
        _probe(settings.listen)
        _probe_http(settings)
        return None
    served = _served_by(settings.data)
    if served is not None:
        if served.details.get("address") != settings.listen:
            _probe(settings.listen)
        return str(served.message)
    _probe(settings.listen)
    _probe_http(settings)
    _check_directory(settings.data)
    return None


def _probe(listen: str) -> None:
    grpc_listening.probe(listen)
    if listen.startswith("unix:"):
        folder = os.path.dirname(os.path.abspath(listen.removeprefix("unix:")))
        if not os.access(folder, os.W_OK | os.X_OK):
            hint = "Does the folder exist, and may this user write there?"
            raise errors.Unavailable(f"the broker cannot listen on {listen}.", hint=hint)


def _probe_http(settings: Settings) -> None:
    """A port that nobody named may be in use: then another one is taken."""
    if settings.http != OFF and "http" in settings.given:
        address.bind(settings.http, exactly=True).close()


def _served_by(data: str) -> errors.Conflict | None:
    lock = DirectoryLock(data)
    try:
        lock.take_to_look()
    except errors.Conflict as conflict:
        return conflict
    except OSError:
        return None  # what is wrong with the directory is told below
    lock.drop()
    return None


def _check_directory(data: str) -> None:
    place = data
    while not os.path.lexists(place):  # those that are missing are made
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise errors.InvalidArgument(f"the data directory {data} is not a directory.", hint="Name a directory, or one that can be made.")
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        reason = f"cannot be written to by this user (uid {os.geteuid()})."
        raise errors.InvalidArgument(f"the data directory {data} {reason}", hint="Give it to this user, or name another one.")
    names = os.listdir(data) if place == data else []
    room = os.statvfs(place)
    if room.f_blocks and room.f_bavail * room.f_frsize < ROOM and RESERVE not in names:
        raise errors.Full(f"the disk of {data} is full.", hint="Free some space.")
    check_catalog_is_there(names, data)
    if CATALOG in names:
        _check_catalog(os.path.join(data, CATALOG))


def _check_catalog(path: str) -> None:
    """Another application's, a later format, or damaged: what `serve` refuses. One that is empty was being made when something happened."""
    if not os.access(path, os.R_OK | os.W_OK):
        raise errors.Conflict(f"{path} cannot be opened for writing.", hint="Is it this user's?")
    if os.path.getsize(path):
        file.abandon(file.connect_to_look(path))
