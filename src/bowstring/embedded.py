"""A broker inside a program: the same code as `bowstring serve`, with a sync and an async face.

`Broker` runs it on a loop in a thread of its own, so it works in scripts, notebooks and under a
running loop. `AsyncBroker`, which is `bowstring.aio.Broker`, runs on the caller's loop. Both listen
on a free port of 127.0.0.1 and make topics on publish, unless told otherwise; settings are
keywords, the environment is not read.

A directory that another process serves is not an error. This broker becomes a guest: its clients
connect to that process, and when that process ends this one may serve in its place
(`host.sharing`).

Stopping a broker ends the readers of its own clients, those of `broker.connect()`: no message can
arrive any more, and a thread that iterates must end. A client that connected by the address only
sees that the broker is away; it waits, because another broker may appear there. After `kill`, which
is a crash, all readers wait in the same way.

A failed sync ends the Broker object, never the program (invariant 2): `failure` holds the cause,
calls under way and later ones raise `Unavailable` with it at once, and the object cannot be started
again: only a new one can find out what is on the disk. A publish that was under way raises
`OutcomeUnknown`: its pages or its journal row may have reached the disk before the sync failed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakSet

from bowstring import errors, listening
from bowstring.host.loading import loading
from bowstring.settings import Settings, default_data, from_keywords, load

if TYPE_CHECKING:
    from bowstring.broker.statistics import Statistics
    from bowstring.client.client import Client as AsyncClient
    from bowstring.client.client import Connecting
    from bowstring.client.sync import Client
    from bowstring.host.manual_time import ManualTime
    from bowstring.host.sharing import Guest
    from bowstring.manual_clock import AsyncManualClock, ManualClock
    from bowstring.server import Server
    from bowstring.wire.loops import LoopThread

DEFAULTS: Final[Mapping[str, object]] = {"listen": "127.0.0.1:0", "http": "off", "topic_create": "on-publish"}
ClockKind = Literal["system", "manual"]


class AsyncBroker:
    """A broker on the caller's loop: `async with bowstring.aio.Broker("./orders-data") as broker:`"""

    def __init__(self, data: str | os.PathLike[str] | None = None, *, clock: ClockKind = "system", **settings: Any) -> None:
        self._settings = _settings(data, settings)
        self.time = None if clock == "system" else _manual_time(clock)
        """The clock of a broker that was made with a manual clock."""
        self._server: Server | None = None
        self._guest: Guest | None = None
        self._taking_over: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._clients: WeakSet[AsyncClient] = WeakSet()
        self._pid = 0  # the process in which it was started last

    @classmethod
    def ephemeral(cls, *, clock: ClockKind = "system", **settings: Any) -> AsyncBroker:
        """A broker that keeps everything in memory, and nothing beyond its end."""
        return cls(store="memory", clock=clock, **settings)

    async def start(self) -> None:
        """Serves the directory, or joins the process that does. Raises Unavailable after a failure."""
        self.check()
        self._check_process()
        if self._server is not None or self._guest is not None:
            return
        self._pid = os.getpid()
        try:
            await self._serve(self._settings)
        except errors.Conflict as conflict:
            if self.time is not None or not self._is_guest_of(conflict):
                raise
            self._taking_over = asyncio.create_task(self._take_over())

    async def stop(self) -> None:
        """Answers the requests under way, ends the readers of its clients, then stops."""
        self._check_process()
        for client in tuple(self._clients):
            await client._close_readers()  # pyright: ignore[reportPrivateUsage]
        await self._leave()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def kill(self) -> None:
        """Ends as a crash would. Acknowledged messages survive, unless in memory."""
        self._check_process()
        await self._leave()
        server, self._server = self._server, None
        if server is not None:
            http = self._settings.http if server.http_address is None else server.http_address.removeprefix("http://")
            self._settings = replace(self._settings, listen=server.address, http=http)
            await server.stop(grace=0.0, reason="kill()")

    async def restart(self) -> None:
        """Ends as a crash would, if it still runs, and starts again at the same address."""
        await self.kill()
        await self.start()

    @property
    def address(self) -> str:
        """The address for clients, such as bowstring://127.0.0.1:54123; a guest has its host's."""
        return self._seeds()[0]

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are; None unless made with `http=` and serving itself."""
        return None if self._server is None else self._server.http_address

    @property
    def serves(self) -> bool:
        """Whether this broker serves, and not another process that it has joined."""
        return self._server is not None

    @property
    def clock(self) -> AsyncManualClock:
        """The clock of a broker with `clock="manual"`."""
        from bowstring.manual_clock import AsyncManualClock

        return AsyncManualClock(self, self._manual())

    async def let_pass(self, seconds: float) -> None:
        """See `broker.clock.advance`."""
        if self._server is None:
            self._manual().set_forward(seconds)
        else:
            await self._manual().go_on(seconds)

    @property
    def failure(self) -> BaseException | None:
        """What the broker has ended with, if it has ended by itself."""
        return self._failure

    def connect(self, **arguments: Any) -> Connecting:
        """A client of this broker, as `bowstring.aio.connect` gives one."""
        self.check()
        seeds = self._seeds()
        from bowstring.client.client import connect

        connecting = connect(seeds, **arguments)
        if self.time is not None:
            connecting.client._broker_time.follow(self.time)  # pyright: ignore[reportPrivateUsage]
        self._clients.add(connecting.client)
        return connecting

    def statistics(self) -> Statistics:
        """The broker's figures at this moment. Only the process that serves has them."""
        self.check()
        if self._server is None and self._guest is not None:
            raise errors.Conflict(self._guest.conflict.message, hint="Ask for statistics() there.", details=self._guest.conflict.details)
        return self._running().broker.statistics()

    async def __aenter__(self) -> AsyncBroker:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._is_inherited:
            await self.stop()

    def check(self) -> None:
        """Raises Unavailable if the broker has ended by itself."""
        if self._failure is not None:
            from bowstring.ports.failures import StorageFailed

            cause = "its storage has failed: " if isinstance(self._failure, (StorageFailed, OSError)) else ""
            hint = "Look after the disk, then make a new Broker: it finds out what is there."
            raise errors.Unavailable(f"the broker has ended: {cause}{self._failure}.", hint=hint) from self._failure

    @property
    def _is_inherited(self) -> bool:
        """Whether it runs in a process from which this one was forked."""
        return (self._server is not None or self._guest is not None) and self._pid != os.getpid()

    def _check_process(self) -> None:
        """Raises Conflict in a forked child: it has this object, but neither its loop nor its files."""
        if self._is_inherited:
            raise errors.Conflict(
                f"this broker runs in process {self._pid}, from which this one was forked.",
                hint="Connect to its address, or open Broker(data=…) of the same directory here: that joins it.",
            )

    # ---- serving, and waiting to

    async def _serve(self, settings: Settings) -> None:
        with loading():
            from bowstring.host.disk import HostDisk
            from bowstring.server import open_broker

        disk = None if settings.store == "memory" else HostDisk(settings.data, embedded=True)
        self._server = await open_broker(settings, clock=self.time, disk=disk, starts_again=False)
        self._server.failed.add_done_callback(self._note_failure)
        self._guest = None

    def _is_guest_of(self, conflict: errors.Conflict) -> bool:
        from bowstring.host.sharing import Guest

        self._guest = Guest.of(self._settings.data, conflict)
        return self._guest is not None

    async def _take_over(self) -> None:
        """Serves when the process that does has ended, unless another guest is quicker."""
        while (guest := self._guest) is not None:
            await guest.until_free()
            try:
                await self._serve_at(guest.holder)
            except errors.Conflict as conflict:
                self._is_guest_of(conflict)
            except errors.Error as failure:
                self._failure, self._guest = failure, None

    async def _serve_at(self, address: str) -> None:
        """Serves at the former address, where clients look, unless this broker has its own."""
        if self._settings.listen == DEFAULTS["listen"] and not address.startswith("unix:"):
            try:
                return await self._serve(replace(self._settings, listen=address))
            except errors.Unavailable:
                pass  # the port was given to another program in between; the socket is ours all the same
        return await self._serve(self._settings)

    async def _leave(self) -> None:
        task, self._taking_over = self._taking_over, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._guest = None

    def _running(self) -> Server:
        if self._server is None:
            self.check()
            raise errors.Unavailable("the broker is not running.", hint="Start it, or use it in a with block.")
        return self._server

    def _seeds(self) -> list[str]:
        if self._server is None and self._guest is not None:
            return [listening.for_clients(seed) for seed in self._guest.seeds]
        return [listening.for_clients(self._running().address)]

    def _manual(self) -> ManualTime:
        if self.time is None:
            raise errors.Conflict("this broker goes by the machine's clock.", hint='Make it with clock="manual".')
        return self.time

    def _note_failure(self, failed: Any) -> None:
        if not failed.cancelled():
            self._failure = failed.result()


class Broker:
    """A broker in a thread of its own: `with bowstring.Broker(data="./orders-data") as broker:`"""

    def __init__(self, data: str | os.PathLike[str] | None = None, *, clock: ClockKind = "system", **settings: Any) -> None:
        self._broker = AsyncBroker(data, clock=clock, **settings)
        self._thread: LoopThread | None = None
        self._clients: WeakSet[Client] = WeakSet()

    @classmethod
    def ephemeral(cls, *, clock: ClockKind = "system", **settings: Any) -> Broker:
        """A broker that keeps everything in memory, and nothing beyond its end."""
        return cls(store="memory", clock=clock, **settings)

    def start(self) -> None:
        """Serves the directory, or joins the process that does. Raises Unavailable after a failure."""
        from bowstring.wire.loops import LoopThread

        self._broker.check()
        if self._running() is not None:
            return
        self._thread = LoopThread("bowstring-broker")
        try:
            self._thread.run(self._broker.start())
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Answers the requests under way, ends the readers of its clients, then stops."""
        if (thread := self._running()) is not None:
            for client in tuple(self._clients):
                client._end_reading()  # pyright: ignore[reportPrivateUsage]
            try:
                thread.run(self._broker.stop())
            finally:
                self._end_thread()

    def kill(self) -> None:
        """Ends as a crash would. Acknowledged messages survive, unless in memory."""
        if (thread := self._running()) is not None:
            try:
                thread.run(self._broker.kill())
            finally:
                self._end_thread()

    def restart(self) -> None:
        """Ends as a crash would, if it still runs, and starts again at the same address."""
        if (thread := self._running()) is None:
            self.start()
        else:
            thread.run(self._broker.restart())

    @property
    def address(self) -> str:
        """The address for clients, such as bowstring://127.0.0.1:54123; a guest has its host's."""
        return self._broker.address

    @property
    def http_address(self) -> str | None:
        """Where metrics and health are; None unless made with `http=` and serving itself."""
        return self._broker.http_address

    @property
    def serves(self) -> bool:
        """Whether this broker serves, and not another process that it has joined."""
        return self._running() is not None and self._broker.serves

    @property
    def clock(self) -> ManualClock:
        """The clock of a broker with `clock="manual"`."""
        from bowstring.manual_clock import ManualClock

        self._broker.clock.now()  # raises if there is none
        time: Any = self._broker.time
        return ManualClock(self, time)

    def let_pass(self, seconds: float) -> None:
        """See `broker.clock.advance`."""
        if (thread := self._running()) is not None:
            thread.run(self._broker.let_pass(seconds))
        elif self._broker.time is not None:
            self._broker.time.set_forward(seconds)

    @property
    def failure(self) -> BaseException | None:
        """What the broker has ended with, if it has ended by itself."""
        return self._broker.failure

    def connect(self, **arguments: Any) -> Client:
        """A client of this broker, as `bowstring.connect` gives one."""
        self._broker.check()
        self._running()
        seeds = self._broker._seeds()  # pyright: ignore[reportPrivateUsage]
        from bowstring.client.sync import connect

        client = connect(seeds, **arguments)
        if self._broker.time is not None:
            client._client._broker_time.follow(self._broker.time)  # pyright: ignore[reportPrivateUsage]
        self._clients.add(client)
        return client

    def statistics(self) -> Statistics:
        """The broker's figures at this moment. Only the process that serves has them."""
        if (thread := self._running()) is None:
            return self._broker.statistics()
        return thread.run(_later(self._broker))

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._broker._is_inherited:  # pyright: ignore[reportPrivateUsage]
            self.stop()

    def _running(self) -> LoopThread | None:
        """The thread that it runs in. A forked child has this object, but not the thread."""
        self._broker._check_process()  # pyright: ignore[reportPrivateUsage]
        return self._thread

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


async def _later(broker: AsyncBroker) -> Statistics:
    """On the broker's own loop, where nothing changes meanwhile."""
    return broker.statistics()


def _settings(data: str | os.PathLike[str] | None, keywords: Mapping[str, object]) -> Settings:
    settings = load(from_keywords({"data": data, **keywords}), defaults=DEFAULTS)
    if settings.store == "memory":
        return settings
    return replace(settings, data=os.path.abspath(settings.data or default_data(os.environ)))


def _manual_time(clock: str) -> ManualTime:
    from bowstring.manual_clock import started_now

    return started_now(clock)
