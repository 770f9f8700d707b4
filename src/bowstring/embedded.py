"""A broker inside a program: the same code as `bowstring serve`, with a sync and an async face.

`Broker` runs it on a loop in a thread of its own, so it works in scripts, notebooks and under a running loop. `AsyncBroker`, which is
`bowstring.aio.Broker`, runs on the caller's loop. Both listen on a free port of 127.0.0.1 and make topics on publish, unless told
otherwise; settings are keywords, the environment is not read.

A failed sync ends the Broker object, never the program (invariant 2): `failure` holds the cause, calls raise `Unavailable` with it, and
the object cannot be started again: what is on the disk is for a new one to find out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from bowstring import errors
from bowstring.settings import Settings, from_keywords, load

if TYPE_CHECKING:
    from bowstring.broker.broker import Statistics
    from bowstring.client.client import Connecting
    from bowstring.client.sync import Client
    from bowstring.server import Server
    from bowstring.wire.loops import LoopThread

DEFAULTS: Final[Mapping[str, object]] = {"listen": "127.0.0.1:0", "topic_create": "on-publish"}
_NOT_RUNNING: Final = "the broker is not running."


class AsyncBroker:
    """A broker on the loop of the caller: `async with bowstring.aio.Broker(data="./orders-data") as broker:`"""

    def __init__(self, data: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self._settings = _settings(data, settings)
        self._server: Server | None = None
        self._failure: BaseException | None = None

    @classmethod
    def ephemeral(cls, **settings: Any) -> AsyncBroker:
        """A broker that keeps everything in memory, and nothing beyond its end."""
        return cls(store="memory", **settings)

    async def start(self) -> None:
        """Serves. Does nothing if it does already; raises Unavailable after a failure."""
        from bowstring.server import open_broker

        self.check()
        if self._server is None:
            self._server = await open_broker(self._settings)
            self._server.failed.add_done_callback(self._note_failure)

    async def stop(self) -> None:
        """Ends well: what is under way is answered first. Does nothing if it does not run."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def kill(self) -> None:
        """Ends as a crash would: what is under way is cut off. What was acknowledged is there at the next start, unless in memory."""
        server, self._server = self._server, None
        if server is not None:
            self._settings = replace(self._settings, listen=server.address)
            await server.stop(grace=0.0)

    async def restart(self) -> None:
        """Ends as a crash would, if it still runs, and starts again at the same address."""
        await self.kill()
        await self.start()

    @property
    def address(self) -> str:
        """Where clients find it: bowstring://127.0.0.1:54123."""
        return _address(self._running().address)

    @property
    def failure(self) -> BaseException | None:
        """What the broker has ended with, if it has ended by itself."""
        return self._failure

    def connect(self, **arguments: Any) -> Connecting:
        """A client of this broker, as `bowstring.aio.connect` gives one."""
        self.check()
        address = self.address
        from bowstring.client.client import connect

        return connect(address, **arguments)

    def statistics(self) -> Statistics:
        """The broker's figures at this moment."""
        self.check()
        return self._running().broker.statistics()

    async def __aenter__(self) -> AsyncBroker:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.stop()

    def _running(self) -> Server:
        if self._server is None:
            self.check()
            raise errors.Unavailable(_NOT_RUNNING, hint="Start it, or use it in a with block.")
        return self._server

    def check(self) -> None:
        """Raises Unavailable if the broker has ended by itself."""
        if self._failure is not None:
            hint = "Look after the disk, then make a new Broker: it finds out what is there."
            raise errors.Unavailable(f"the broker has ended: {self._failure}.", hint=hint) from self._failure

    def _note_failure(self, failed: Any) -> None:
        if not failed.cancelled():
            self._failure = failed.result()


class Broker:
    """A broker in a thread of its own: `with bowstring.Broker(data="./orders-data") as broker:`"""

    def __init__(self, data: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        self._broker = AsyncBroker(data, **settings)
        self._thread: LoopThread | None = None

    @classmethod
    def ephemeral(cls, **settings: Any) -> Broker:
        """A broker that keeps everything in memory, and nothing beyond its end."""
        return cls(store="memory", **settings)

    def start(self) -> None:
        """Serves. Does nothing if it does already; raises Unavailable after a failure."""
        from bowstring.wire.loops import LoopThread

        self._broker.check()
        if self._thread is not None:
            return
        self._thread = LoopThread("bowstring-broker")
        try:
            self._thread.run(self._broker.start())
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Ends well: what is under way is answered first. Does nothing if it does not run."""
        if self._thread is not None:
            try:
                self._thread.run(self._broker.stop())
            finally:
                self._end_thread()

    def kill(self) -> None:
        """Ends as a crash would: what is under way is cut off. What was acknowledged is there at the next start, unless in memory."""
        if self._thread is not None:
            try:
                self._thread.run(self._broker.kill())
            finally:
                self._end_thread()

    def restart(self) -> None:
        """Ends as a crash would, if it still runs, and starts again at the same address."""
        if self._thread is None:
            self.start()
        else:
            self._thread.run(self._broker.restart())

    @property
    def address(self) -> str:
        """Where clients find it: bowstring://127.0.0.1:54123."""
        return self._broker.address

    @property
    def failure(self) -> BaseException | None:
        """What the broker has ended with, if it has ended by itself."""
        return self._broker.failure

    def connect(self, **arguments: Any) -> Client:
        """A client of this broker, as `bowstring.connect` gives one."""
        self._broker.check()
        address = self.address
        from bowstring.client.sync import connect

        return connect(address, **arguments)

    def statistics(self) -> Statistics:
        """The broker's figures at this moment."""
        if self._thread is None:
            return self._broker.statistics()
        return self._thread.run(_later(self._broker))

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()


async def _later(broker: AsyncBroker) -> Statistics:
    """On the broker's own loop, where nothing changes meanwhile."""
    return broker.statistics()


def _settings(data: str | os.PathLike[str] | None, keywords: Mapping[str, object]) -> Settings:
    return load(from_keywords({"data": data, **keywords}), defaults=DEFAULTS)


def _address(listening: str) -> str:
    """The address for clients on this machine: one that listens everywhere is found at home."""
    if listening.startswith("unix:"):
        return listening
    host, _, port = listening.rpartition(":")
    home = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    return f"bowstring://{home}:{port}"
