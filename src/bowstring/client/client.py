"""The client for asyncio: connects, manages topics and subscriptions, makes producers, readers and
consumers.

These are imported when the first one is made: they need Arrow, and a program that
only asks for topics does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from bowstring import contexts, errors, times
from bowstring.client import addresses, arguments
from bowstring.client.arguments import SpanOrMoment
from bowstring.client.broker_time import BrokerTime
from bowstring.client.connection import SOFTWARE, Connection, Greeting, World
from bowstring.client.keys import KeyCalls
from bowstring.client.letters import LetterCalls
from bowstring.client.open_readers import OpenReaders
from bowstring.client.ranges import End, Start
from bowstring.client.seek import SeekCalls
from bowstring.client.statistics import BrokerInfo, ClientStatistics, Info
from bowstring.client.subscriptions import SubscriptionCalls
from bowstring.client.topics import TopicCalls
from bowstring.host.clock import SystemClock
from bowstring.host.randomness import SystemRandomness
from bowstring.ports.clock import Clock
from bowstring.ports.randomness import Randomness
from bowstring.ports.transport import Dialer
from bowstring.wire import forks
from bowstring.wire.dialer import AddressDialer

if TYPE_CHECKING:
    from bowstring.client.consumer import Consumer
    from bowstring.client.producer import Producer, ProducerSettings
    from bowstring.client.reader import Reader

MEASURE_SECONDS = 60.0
"""How often the client asks for the brokers' time if no answer carries it."""


class Client(KeyCalls, LetterCalls, SeekCalls, SubscriptionCalls, TopicCalls):
    """A connection to Bowstring for asyncio. Made by `bowstring.aio.connect`."""

    def __init__(
        self,
        seeds: Sequence[str],
        *,
        dialer: Dialer,
        clock: Clock,
        randomness: Randomness,
        name: str | None = None,
        timeout: float = 10.0,
        drift_limit: float = 0.5,
        on_drift: Callable[[float], object] | None = None,
    ) -> None:
        self.name = name or ""
        self._timeout = timeout
        self._drift_limit = drift_limit
        self._on_drift = on_drift
        self._broker_time = BrokerTime(clock)
        self._drifting = False
        self._open = True
        self._measuring: asyncio.Task[None] | None = None
        self._greeting: Greeting | None = None
        self._connection = Connection(seeds, World(dialer, clock, randomness), self._broker_time, self.name, self._fits, self._greeted)
        self._partitions: dict[str, int] = {}
        self._producers: dict[Producer, None] = {}
        self._readers = OpenReaders()
        self._consumers: dict[Consumer, None] = {}
        _clients.add(self)

    async def open(self) -> Client:
        """Connects to the first seed that answers. Raises `Unavailable` if none does in time."""
        try:
            await self._connection.connect(self._timeout)
        except BaseException:
            await self._connection.close()
            raise
        self._measuring = asyncio.get_running_loop().create_task(self._measure(), name="bowstring drift")
        return self

    def _fits(self, greeting: Greeting) -> bool:
        """Whether this broker serves the same data as the one before. At the same address it may be
        new data: an operator has begun anew.
        """
        known = self._greeting
        return known is None or greeting.cluster == known.cluster or greeting.address == known.address

    def _greeted(self, greeting: Greeting) -> None:
        """Takes over what a broker says in its handshake."""
        self._greeting = greeting
        drift = self._broker_time.drift()
        before, self._drifting = self._drifting, abs(drift) > self._drift_limit
        if self._drifting and not before and self._on_drift is not None:
            asyncio.get_running_loop().call_soon(self._on_drift, drift)

    async def _measure(self) -> None:
        """Clocks drift, and jump: every handshake measures that anew."""
        world = self._connection.world
        while True:
            await world.clock.sleep(MEASURE_SECONDS * (0.5 + world.randomness.unit()))
            with suppress(errors.Unavailable):
                await self._connection.hello()

    @property
    def info(self) -> Info:
        """Brokers, versions, and how far this machine's clock is from theirs."""
        told = self._told()
        broker = BrokerInfo(told.address, told.software, told.protocol, told.incarnation)
        return Info((broker,), told.cluster.hex(), SOFTWARE, self._broker_time.drift())

    def statistics(self) -> ClientStatistics:
        """The open producers, readers and consumers of this client."""
        return ClientStatistics(len(self._producers), len(self._readers), len(self._consumers), self._broker_time.drift())

    # ---- producers, readers and consumers

    def producer(
        self,
        topic: str,
        *,
        group: str = "default",
        timeout: SpanOrMoment = 30,
        compression: str | None = None,
        max_bytes: int = 64 * 2**20,
    ) -> Producer:
        """A producer for one topic. `group` owns the messages. Each has a connection of its own."""
        from bowstring.client.producer import ProducerSettings

        settings = ProducerSettings.checked(topic, group, timeout, compression, max_bytes, self._broker_time.now())
        return self._make_producer(settings)

    def _make_producer(self, settings: ProducerSettings, **further: Any) -> Producer:
        from bowstring.client.producer import Producer

        self._check_open()
        producer = Producer(
            self._connection,
            settings,
            batch_bytes_max=self._told().batch_bytes_max,
            partitions=self._partitions.get(settings.topic, 0),
            call_seconds=self._timeout,
            closed=lambda producer: self._producers.pop(producer, None),
            deleted=self._readers.deleted,
            read=lambda where: self.reader(settings.topic, end="latest", where=where),
            **further,
        )
        self._producers[producer] = None
        return producer

    def reader(
        self,
        topic: str | Sequence[str],
        *,
        start: Start = None,
        end: End = None,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        partitions: Sequence[int] | None = None,
        uncommitted: bool = False,
        window: int | None = None,
        window_share: float = 0.5,
    ) -> Reader:
        """A reader of one topic or of several: from `start` on, up to `end` (not included; the
        reader waits for an end that is still to come), or for ever. With `name` it can commit its
        position, and a later reader of the name continues there. `where` is a filter that the
        broker applies, `columns` are the columns to send. `window` is how many messages it hands
        out before some are committed.
        """
        from bowstring.client.reader import Reader
        from bowstring.client.reader_settings import ReaderSettings

        settings = ReaderSettings.checked(
            topic,
            self._clocks(),
            start=start,
            end=end,
            name=name,
            columns=columns,
            where=where,
            partitions=partitions,
            uncommitted=uncommitted,
            window=window,
            window_share=window_share,
        )
        self._check_open()
        closed = lambda reader: self._readers.pop(reader, None)  # noqa: E731
        reader = Reader(self._connection, settings, clocks=self._clocks, call_seconds=self._timeout, closed=closed)
        self._readers[reader] = None
        return reader

    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        mode: str | None = None,
        start: Start = None,
        name: str | None = None,
        lease: SpanOrMoment | None = None,
        credit: int | None = None,
        credit_bytes: int = 16 * 2**20,
        extend_max: timedelta | float = 3600,
        alive: Callable[[], object] | None = None,
        where: str | None = None,
        create: bool = True,
    ) -> Consumer:
        """A consumer of a subscription, which is created if there is none, at `start`, unless
        `create=False`. It holds each message by a lease until the program has settled it, at most
        `credit` messages and `credit_bytes`; by default the credit follows what the program works off
        in about a second. Leases are extended while `alive()`, if given, says yes, up to
        `extend_max`. Under its `name` a consumer gets its leases again; None stands for a name of
        its own. `lease` is how long it holds messages; None is as long as the subscription says.
        `where` is the filter of a subscription that is created; another one than an existing
        subscription has is a `Conflict`.
        """
        from bowstring.client.consumer import Consumer
        from bowstring.client.consumer_settings import ConsumerSettings

        settings = ConsumerSettings.checked(
            topic,
            subscription,
            self._clocks(),
            mode=mode,
            start=start,
            name=name,
            lease=lease,
            credit=credit,
            credit_bytes=credit_bytes,
            extend_max=extend_max,
            alive=alive,
            where=where,
            create=create,
        )
        self._check_open()
        closed = lambda consumer: self._consumers.pop(consumer, None)  # noqa: E731
        consumer = Consumer(self._connection, settings, call_seconds=self._timeout, closed=closed)
        self._consumers[consumer] = None
        return consumer

    # ---- the end

    async def close(self) -> None:
        """Closes readers and consumers (iteration ends, and consumers give back what they hold),
        producers (after waiting for the answers to sent messages) and the connection.
        """
        self._end()
        failure = await self._close_readers()
        for producer in tuple(self._producers):
            try:
                await producer.close()
            except errors.Error as error:
                failure = failure or error
        await self._connection.close()
        if failure is not None:
            raise failure

    async def _abandon(self) -> None:
        """Closes without waiting for anything."""
        self._end()
        for consumer in tuple(self._consumers):
            await consumer._abandon()  # pyright: ignore[reportPrivateUsage]
        await self._close_readers()
        for producer in tuple(self._producers):
            await producer._end(flush=False)  # pyright: ignore[reportPrivateUsage]
        await self._connection.close()

    async def _close_readers(self) -> errors.Error | None:
        """Closes the readers and consumers first: a loop over messages must not wait for what
        producers have under way. Returns what a consumer has raised.
        """
        for reader in tuple(self._readers):
            await reader.close()
        ends = await asyncio.gather(*(consumer.close() for consumer in tuple(self._consumers)), return_exceptions=True)
        return next((end for end in ends if isinstance(end, errors.Error)), None)

    def _end(self) -> None:
        self._open = False
        if self._measuring is not None:
            self._measuring.cancel()

    def _leave_to_parent(self) -> None:
        """This is a forked child: the client, its producers, readers and consumers refuse here.
        Closing them does nothing.
        """
        self._open = False
        for part in (*self._producers, *self._readers, *self._consumers):
            part._leave_to_parent()  # pyright: ignore[reportPrivateUsage]
        self._producers.clear()
        self._readers.clear()
        self._consumers.clear()

    def _check_open(self) -> None:
        self._connection.check_process()
        if not self._open:
            raise errors.Conflict("this client is closed.", hint="Connect again.")

    def _told(self) -> Greeting:
        if self._greeting is None:
            raise errors.Conflict("this client is not connected.", hint="Use `async with bowstring.aio.connect(…)`, or await it.")
        return self._greeting

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            try:
                await self.close()
            except errors.Error as failure:
                error.add_note(f"Closing the client also raised {type(failure).__name__}: {failure}")
        else:
            await self._abandon()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._connection.seeds)}>"

    def __reduce__(self) -> Any:
        raise TypeError("A client cannot be pickled. Connect in the other process: bowstring.connect(…).")


_clients: WeakSet[Client] = WeakSet()
"""The clients of this process."""


def _in_child() -> None:
    for client in tuple(_clients):
        client._leave_to_parent()  # pyright: ignore[reportPrivateUsage]
    _clients.clear()


forks.in_forked_child(_in_child)


class Connecting:
    """The result of `bowstring.aio.connect`: use it with `async with`, or `await` it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __await__(self) -> Generator[Any, None, Client]:
        return self.client.open().__await__()

    async def __aenter__(self) -> Client:
        return await self.client.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.client.__aexit__(kind, error, traceback)


def connect(
    server: str | Sequence[str] | None = None,
    *,
    context: str | None = None,
    token: str | Callable[[], str] | None = None,
    user: str | None = None,
    password: str | None = None,
    name: str | None = None,
    timeout: SpanOrMoment = 10,
    drift_limit: timedelta | float = 0.5,
    on_drift: Callable[[float], object] | None = None,
) -> Connecting:
    """Connects to the first of the seeds that answers: `async with connect() as client`, or
    `client = await connect()`. The server is the first of: `server`, the context, BOWSTRING_SERVER,
    BOWSTRING_CONTEXT, the context in use, bowstring://localhost:27769. Raises `Unavailable` if no
    seed answers within `timeout`. The client calls `on_drift(seconds)` when this machine's clock is
    further from the brokers' than `drift_limit`, and again if that happens anew.
    """
    arguments.no_login(os.environ, token=token, user=user, password=password)
    chosen = contexts.choose(server, context, os.environ, written="{}=")
    client = Client(
        addresses.seeds(chosen.server, chosen.source if chosen.source.endswith("=") else f"{chosen.source}: "),
        dialer=AddressDialer(),
        clock=SystemClock(),
        randomness=SystemRandomness(),
        name=arguments.client_name(name),
        timeout=arguments.timeout(timeout, SystemClock().now()),
        drift_limit=times.span(drift_limit, "drift_limit"),
        on_drift=arguments.callback(on_drift, "on_drift"),
    )
    return Connecting(client)
