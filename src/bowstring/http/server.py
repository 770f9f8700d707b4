"""HTTP in a thread of its own, beside a broker that runs on another loop.

The broker's thread takes the port at once, so that a port in use is an error at start. Everything
else, importing included, happens in the HTTP thread: a slow page never delays a flush, and the
pages still answer when the broker's loop hangs. The pages ask the broker's loop for their figures,
with a time limit (decision 0026).
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from bowstring import errors
from bowstring.broker.statistics import Readiness
from bowstring.http import address
from bowstring.http.figures import DiskSpace, Figures, Subject, bounded_positions, bounded_subscriptions, bounded_topics
from bowstring.http.metrics import View
from bowstring.settings import Settings
from bowstring.version import VERSION
from bowstring.wire import forks
from bowstring.wire.loops import LoopThread

T = TypeVar("T")

ANSWER_SECONDS: Final = 5.0
"""How long the broker's loop may take to answer before it counts as hanging."""
CONNECTIONS_MAX: Final = 100
THREAD: Final = "bowstring-http"

_log = logging.getLogger("bowstring.http")


class HttpServer:
    """Serves the pages of one broker. Made on the broker's loop."""

    def __init__(self, subject: Subject, settings: Settings, files: tuple[str, ...] = ()) -> None:
        self._subject = subject
        self._settings = settings
        self._files = files
        """The catalog's files."""
        self._broker_loop = asyncio.get_running_loop()
        self._loaded = False
        self._socket: socket.socket | None = None
        self._thread: LoopThread | None = None
        self._uvicorn: Any = None
        self._stopping = False
        self._served: Future[None] | None = None
        self._scraping: asyncio.Lock | None = None
        """Scrapes take turns: several at once would only ask the broker for the same figures."""

    @property
    def url(self) -> str | None:
        """http://127.0.0.1:27770, if it listens."""
        return None if self._socket is None else address.url(self._socket)

    def start(self) -> None:
        """Takes the port and begins. Raises an error if the port is not available."""
        exactly = "http" in self._settings.given
        wanted = self._settings.http
        if not exactly and self._settings.listen.endswith(":0"):
            wanted = wanted.rpartition(":")[0] + ":0"
        self._socket = address.bind(wanted, exactly=exactly)
        forks.parents_own(self._socket)
        self._thread = LoopThread(THREAD)
        self._served = asyncio.run_coroutine_threadsafe(self._serve(), self._thread.loop)

    def loaded(self) -> None:
        """Call this when the broker serves: from now on its loop can be asked."""
        self._loaded = True

    async def stop(self) -> None:
        """Ends the thread. Cuts off requests under way."""
        self._stopping = True
        if self._uvicorn is not None:
            self._uvicorn.should_exit = self._uvicorn.force_exit = True
        if self._served is not None:
            await asyncio.wait([asyncio.wrap_future(self._served)])
        if self._thread is not None:
            self._thread.stop()
        if self._socket is not None:
            self._socket.close()

    # On the thread

    async def _serve(self) -> None:
        try:
            await self._run_uvicorn()
        except Exception:
            _log.exception("HTTP has ended unexpectedly; the broker goes on without it")

    async def _run_uvicorn(self) -> None:
        import uvicorn

        from bowstring.http.application import Pages, application

        logging.getLogger("uvicorn.error").addFilter(_quiet)
        self._scraping = asyncio.Lock()
        pages = Pages(version=VERSION, alive=self._alive, ready=self._ready, view=self._view)
        config = uvicorn.Config(
            application(pages),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=1,
        )
        self._uvicorn = uvicorn.Server(config)
        if not self._stopping:
            assert self._socket is not None
            await self._uvicorn.serve(sockets=[self._socket])

    async def _alive(self) -> Readiness:
        """Whether the loop answers. A failed broker is not alive, because only a new process can go
        on. A broker that loads is alive.
        """
        if not self._loaded:
            return Readiness(True, "alive")
        try:
            found = await self._ask(_readiness(self._subject))
        except errors.Unavailable as error:
            return Readiness(False, "hanging", error.message)
        return found if found.state == "failed" else Readiness(True, "alive")

    async def _ready(self) -> Readiness:
        if not self._loaded:
            return Readiness(False, "loading", "the broker is starting.")
        try:
            return await self._ask(_readiness(self._subject))
        except errors.Unavailable as error:
            return Readiness(False, "hanging", error.message)

    async def _view(self) -> View:
        assert self._scraping is not None
        async with self._scraping:
            if self._loaded:
                figures = await self._ask(self._subject.figures())
            else:
                figures = Figures(Readiness(False, "loading"), 0, self._settings.connections_max, 0)
            topics = bounded_topics(figures.topics.topics, self._settings.metrics_topics_max)
            positions = bounded_positions(figures.topics.positions, self._settings.metrics_positions_max)
            subscriptions = bounded_subscriptions(figures.topics.subscriptions, self._settings.metrics_positions_max)
            return View(VERSION, figures, topics, positions, subscriptions, self._disk_space())

    async def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        """On the broker's loop. Raises Unavailable if that does not answer in time."""
        try:
            asked = asyncio.run_coroutine_threadsafe(question, self._broker_loop)
            return await asyncio.wait_for(asyncio.wrap_future(asked), ANSWER_SECONDS)
        except TimeoutError:
            raise errors.Unavailable(f"the broker's loop has not answered for {ANSWER_SECONDS:g} s.") from None
        except RuntimeError:
            question.close()
            raise errors.Unavailable("the broker has ended.") from None

    def _disk_space(self) -> DiskSpace | None:
        if self._settings.store == "memory":
            return None
        try:
            size, _, free = shutil.disk_usage(self._settings.data)
        except OSError:
            return None
        return DiskSpace(size, free, sum(_size(file) for file in self._files))


async def _readiness(subject: Subject) -> Readiness:
    return subject.readiness()


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _quiet(record: logging.LogRecord) -> bool:
    """Silences uvicorn's messages about start and end, because the broker logs its own. Other
    servers in this process keep theirs.
    """
    return record.threadName != THREAD or record.levelno >= logging.WARNING
