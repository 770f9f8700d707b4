"""A broker put together on the real machine: disk, catalog, store, broker, gateway, transports.
`bowstring serve` and `bowstring.Broker` run it.

The server locks the data directory before it opens anything in it, and the lock names the address,
for processes that come second. With a fixed port the address is known beforehand, so the server
takes the directory first: a second server with the same settings then reports "is served by … (pid
…)", which says more than "port in use". With port 0 it takes the port first, because only then
there is an address to name. A broker also listens on a Unix socket in its directory, for clients
that know the directory (`host.sharing`).

Ending goes the other way round: streams answer requests under way and end, calls are refused, then
the broker, the worker and the lock end. A broker that has failed (a sync, an I/O error) stays in
place and answers `Unavailable` with the cause until it is stopped. The command then ends its
process, an embedded broker reports to its program.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bowstring import errors, listening
from bowstring.assembly import assemble
from bowstring.broker.statistics import Readiness
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from bowstring.host.clock import SystemClock
from bowstring.host.disk import HostDisk
from bowstring.host.sharing import DirectorySocket
from bowstring.host.worker import ThreadWorker
from bowstring.logs.event_log import EventLog
from bowstring.ports.clock import Clock
from bowstring.ports.disk import Disk
from bowstring.ports.failures import Damaged, DiskFull, StorageFailed
from bowstring.settings import OFF, Settings, default_data
from bowstring.version import VERSION
from bowstring.wire.front_door import FrontDoor
from bowstring.wire.stream_limits import StreamLimits

if TYPE_CHECKING:
    from bowstring.backup.archive import HostArchive
    from bowstring.http.figures import Figures
    from bowstring.http.server import HttpServer

CATALOG: Final = "catalog.sqlite"
GRACE_SECONDS: Final = 5.0
"""How long calls and streams under way may take to finish when the server stops."""

_log = logging.getLogger("bowstring.server")


async def open_broker(settings: Settings, *, clock: Clock | None = None, disk: Disk | None = None, starts_again: bool = True) -> Server:
    """A server that answers calls. If it cannot, it raises and leaves nothing behind. `disk`
    replaces the machine's. `starts_again` says whether it is restarted after a failure: if not, its
    errors say that waiting is useless.
    """
    server = Server(settings, clock or SystemClock(), disk, starts_again=starts_again)
    try:
        await server.start()
    except BaseException:
        await server.stop(grace=0.0)
        raise
    return server


class Server:
    """One broker with all that is around it."""

    def __init__(self, settings: Settings, clock: Clock, disk: Disk | None = None, *, starts_again: bool = True) -> None:
        in_memory = settings.store == "memory"
        self.settings = settings if settings.data or in_memory else replace(settings, data=default_data(os.environ))
        self._disk = None if in_memory else disk or HostDisk(self.settings.data)
        self._clock = clock
        self.events = EventLog(clock)
        self._worker = ThreadWorker("bowstring-catalog")
        self._backups = ThreadWorker("bowstring-backup")
        path = os.path.join(self.settings.data, CATALOG) if self._disk else ":memory:"
        self.broker, self._gateway = assemble(
            self.settings,
            clock=clock,
            catalog=SqliteCatalog(path, self._worker),
            disk=self._disk,
            archives=None if self._disk is None else self._archive,
            observer=self.events,
            starts_again=starts_again,
            software=f"bowstring/{VERSION}",
        )
        self._limits = StreamLimits(
            streams_max=self.settings.connections_max,
            connection_streams_max=self.settings.connection_streams_max,
            observer=self.events,
        )
        self._door = FrontDoor(
            self._gateway,
            self._limits,
            listen=self.settings.listen,
            batch_bytes_max=self.settings.batch_bytes_max,
            grpc_listen="" if self.settings.grpc_listen == OFF else self.settings.grpc_listen,
            http=lambda: None if self.http_address is None else self.http_address.removeprefix("http://"),
        )
        self._http: HttpServer | None = None
        self._socket: DirectorySocket | None = None
        self._locked = False
        self._begun = False
        self._stopped = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it listens, as host:port or unix:path."""
        return self._door.address

    @property
    def http_address(self) -> str | None:
        """Where its metrics and health are, http://127.0.0.1:27770; None if `http` is off."""
        return None if self._http is None else self._http.url

    @property
    def failed(self) -> asyncio.Future[BaseException]:
        """Settled with the cause when the broker has ended by itself."""
        return self.broker.failed

    async def start(self) -> None:
        """Takes port and directory, loads, serves. Errors are those of `bowstring.errors`."""
        try:
            if self.settings.listen.endswith(":0"):
                self._door.bind()
                self._lock(self.address)
            else:
                self._lock(self.settings.listen)
                self._door.bind()
            self._bind_socket()
            self._start_http()
            self._begun = True
            loading = self._clock.monotonic()
            await self.broker.start()
        except (OSError, DiskFull, StorageFailed, Damaged) as failure:
            raise _translated(failure, self.settings.data) from failure
        await self._door.start()
        if self._http is not None:
            self._http.loaded()
        self._note_start(self._clock.monotonic() - loading)
        self._watching = asyncio.create_task(self._watch())

    def _note_start(self, loading: float) -> None:
        found = self.broker.statistics()
        self.events.note(
            "broker-started",
            version=VERSION,
            address=self.address,
            data=self.settings.data if self._disk is not None else "memory",
            topics=found.topics,
            partitions=found.partitions,
            messages=found.messages,
            loading_seconds=loading,
        )
        if not listening.is_local(self.settings.listen):
            self.events.note("open-to-all", address=self.address)

    async def stop(self, grace: float = GRACE_SECONDS, *, reason: str = "stop()") -> None:
        """Ends everything, in order, once. With a grace of 0 it cuts off requests under way, as if
        the process were killed.
        """
        if self._stopped:
            return
        self._stopped = True
        if self._watching is not None:
            self._watching.cancel()
        self._gateway.close(errors.Unavailable("the broker is stopping."))
        await self._door.stop(grace)
        try:
            if self._begun:
                await self.broker.stop()
        except (OSError, DiskFull, StorageFailed) as failure:
            _log.warning("the broker did not close well: %s; nothing that was acknowledged is concerned", failure)
        finally:
            if self._http is not None:
                await self._http.stop()
            await self._backups.close()
            await self._worker.close()
            if self._disk is not None and self._locked:
                if self._socket is not None:
                    self._socket.remove()
                self._disk.unlock()
                self._locked = False
            self._note_end(reason)

    def _note_end(self, reason: str) -> None:
        self.events.close()
        if self._watching is not None:
            self.events.note("broker-stopped", reason=reason, address=self.address)

    def _bind_socket(self) -> None:
        """Opens the socket in the directory. Clients can also use the port."""
        socket = DirectorySocket(self.settings.data) if self._locked else None
        if socket is None or socket.address is None:
            return
        if self._door.bind_also(socket.address):
            self._socket = socket
            socket.claim()
        else:
            _log.warning("there can be no socket at %s; the port is there all the same", socket.address)

    def _start_http(self) -> None:
        if self.settings.http != OFF:
            from bowstring.http.server import HttpServer

            path = os.path.join(self.settings.data, CATALOG)
            self._http = HttpServer(self, self.settings, (path, path + "-wal") if self._disk else ())
            self._http.start()

    # What HTTP shows

    def readiness(self) -> Readiness:
        """See `Broker.readiness`."""
        return Readiness(False, "stopping", "the broker is stopping.") if self._stopped else self.broker.readiness()

    async def figures(self) -> Figures:
        """What `/metrics` shows."""
        from bowstring.http.figures import Figures

        limits, readiness = self._limits, self.readiness()
        found = Figures(readiness, limits.streams, limits.streams_max, limits.refused)
        try:
            statistics, topics = await self.broker.all_statistics()
        except errors.Unavailable:
            return found
        return found._replace(statistics=statistics, topics=topics)

    def _archive(self, target: str) -> HostArchive:
        from bowstring.backup.archive import HostArchive

        clock, software = self.broker.clock, f"bowstring/{VERSION}"
        return HostArchive(self.settings.data, target, worker=self._backups, clock=clock, software=software)

    def _lock(self, address: str) -> None:
        if self._disk is not None:
            self._disk.lock(address)
            self._locked = True
            check_catalog_is_there(self._disk.names(), self.settings.data)

    async def _watch(self) -> None:
        """Reports a failed broker to health checks."""
        await asyncio.shield(self.broker.failed)
        await self._door.serving(False)


def check_catalog_is_there(names: list[str], data: str) -> None:
    """Refuses segments without a catalog: an operator has moved or lost it, and a fresh catalog
    would reuse their files.
    """
    segments = [name for name in names if name.startswith("segment-")]
    if segments and CATALOG not in names:
        raise errors.Corrupt(
            f"{data} has {len(segments)} segments but no {CATALOG}, without which their contents are unknown.",
            hint=f"Put {CATALOG} back, or move the segments away.",
        )


def _translated(failure: Exception, data: str) -> errors.Error:
    """Why a broker could not start, in the words of the product."""
    if isinstance(failure, DiskFull):
        return errors.Full(f"the disk of {data} is full.", hint="Free some space, then start again.")
    if isinstance(failure, Damaged):
        return errors.Corrupt(f"the data in {data} is damaged: {failure}.", hint="`bowstring inspect` tells more.")
    return errors.Unavailable(f"the data in {data} cannot be used: {failure}.", hint="Look after the disk, then start again.")
