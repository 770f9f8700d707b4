"""Finds what would keep a broker from starting, without changing anything: `bowstring serve
--check`.

The settings have been parsed by then. This module checks the machine: the address is free, gRPC is
installed if a setting needs it, the data directory exists or can be made, this user may write to
it, the disk has room, and the directory's contents are a broker's, in a format that this software
reads. A directory that a broker serves at
this moment is fine, as is that broker's own port: people check settings before they restart a
running broker. The check then leaves the contents alone.
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
from bowstring.wire import grpc_extra, sockets

ROOM: Final = 1 << 20
"""Bytes that a start may take: the catalog, its WAL, the lock."""


def check(settings: Settings) -> str | None:
    """Raises what keeps a broker with these settings from starting; their data directory is an
    absolute path. Returns who serves the directory at this moment, if a broker does.
    """
    if settings.grpc_listen != OFF:
        grpc_extra.check(f'grpc.listen = "{settings.grpc_listen}"')
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
    sockets.probe(listen)
    if listen.startswith("unix:"):
        folder = os.path.dirname(os.path.abspath(listen.removeprefix("unix:")))
        if not os.access(folder, os.W_OK | os.X_OK):
            hint = "Does the folder exist, and may this user write there?"
            raise errors.Unavailable(f"the broker cannot listen on {listen}.", hint=hint)


def _probe_http(settings: Settings) -> None:
    """The default port may be in use: then the broker takes another one."""
    if settings.http != OFF and "http" in settings.given:
        address.bind(settings.http, exactly=True).close()


def _served_by(data: str) -> errors.Conflict | None:
    lock = DirectoryLock(data)
    try:
        lock.take_to_look()
    except errors.Conflict as conflict:
        return conflict
    except OSError:
        return None  # the check of the directory below reports this
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
    """Refuses what `serve` refuses: another application's file, a later format, a damaged file. An
    empty file is fine: a crash interrupted its creation.
    """
    if not os.access(path, os.R_OK | os.W_OK):
        raise errors.Conflict(f"{path} cannot be opened for writing.", hint="Is it this user's?")
    if os.path.getsize(path):
        file.abandon(file.connect_to_look(path))
