"""The network between nodes: who listens where, which connections there are, and how they break.

A connection carries many calls, as one of HTTP/2 does, and all of them break with it. Its two ends
learn of that at different times; a half-open one is a connection whose one end learns it long after
the other. Links can be clogged: then everything between two machines is held for a while, and
delivered afterwards, or never. No frame is ever delivered to a process that is dead, and none that
it sent after its death is sent at all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bowstring import errors
from bowstring.ports.disk import Buffer
from bowstring.ports.transport import Caller, Handler
from tests.simulation.loop import PowerCut
from tests.simulation.pipe import Frame, Kind, Pipe, decoded, encoded

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

CONNECT_SECONDS = 2.0


class Link:
    """The way between two machines. A clog counts as a fault once it has held something."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self._network = network
        self._held_until = 0.0
        self._felt = True

    def clog(self, seconds: float) -> None:
        self._held_until = max(self._held_until, self._network.world.loop.time() + seconds)
        self._felt = False

    def unclog(self) -> None:
        self._held_until = 0.0

    def held(self, now: float) -> float:
        """Until when something that would arrive now is held."""
        if self._held_until > now and not self._felt:
            self._felt = True
            self._network.world.fault("clog", self.name)
        return self._held_until


class Exchange:
    """One call on a connection, unary or streamed."""

    def __init__(self, connection: Connection, number: int, method: str, unary: bool, seconds: float | None) -> None:
        label = f"{connection.client.name}>{connection.server.name} {method}#{number}"
        self.connection = connection
        self.number = number
        self.method = method
        self.unary = unary
        self._seconds = seconds
        self.up = Pipe(self, f"{label} up", connection.client, connection.server)
        self.down = Pipe(self, f"{label} down", connection.server, connection.client)
        self._task: asyncio.Task[None] | None = None
        self._served = False
        self._given_up = False

    @property
    def open(self) -> bool:
        """Whether either end still waits for something."""
        return not (self._served and (self.down.arrived_end or self._given_up))

    # ---- on the way ------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The first frame has arrived at the server."""
        self._task = self.connection.server.spawn(self._serve(self.connection.listener.handler), self.up.label)

    def finished(self, pipe: Pipe, frame: Frame) -> None:
        """The last frame of a direction has arrived; if that is the handler's, the caller cannot
        send any more.
        """
        if pipe is self.down:
            ended = decoded(frame.data) if frame.kind is Kind.ERROR else errors.Unavailable("The broker has ended this stream.")
            self.up.break_sender(ended)
            self.connection.forget(self)

    def breaks_now(self, pipe: Pipe, kind: Kind) -> bool:
        """Whether the connection breaks at the moment of sending this frame, which is then lost."""
        network, world = self.connection.network, self.connection.network.world
        rate = world.options.cut_rate
        if not (rate > 0.0 and world.faulty and network.random.random() < rate):
            return False
        if kind is Kind.MESSAGE and self.unary and pipe is self.down:
            world.sometimes("answer lost after the call was carried out")
        return True

    # ---- how it ends -----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """The caller gives up: it gets nothing more, and the handler is cancelled when word of that
        arrives.
        """
        error = errors.Unavailable("This stream was cancelled here.")
        self._given_up = True
        self.up.break_sender(error)
        self.down.break_receiver(error, forget=True)
        network = self.connection.network
        network.world.loop.outside_later(network.delay(), self._cancelled)

    def _cancelled(self) -> None:
        loop, connection = self.connection.network.world.loop, self.connection
        until = connection.link.held(loop.time())
        if until > loop.time():
            loop.outside_at(until, self._cancelled)
        elif not connection.severed:
            connection.network.world.digest.note(f"{self.up.label} cancelled")
            self.break_server(0.0)

    def break_client(self) -> None:
        error = errors.Unavailable("The connection broke.", hint="Wait and repeat.")
        self.up.break_sender(error)
        self.down.break_receiver(error, forget=self.connection.network.random.random() < 0.5)

    def break_server(self, seconds: float) -> None:
        """The handler's end breaks; as in gRPC its task is cancelled, a little later. A call that
        is no stream may run to its end.
        """
        error = errors.Unavailable("The caller is gone.")
        self.up.break_receiver(error, forget=self.connection.network.random.random() < 0.5)
        self.down.break_sender(error)
        if not self.unary or self.connection.network.random.random() < 0.5:
            self.connection.network.world.loop.outside_later(seconds, self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None and not self._task.done() and not self.connection.server.dead:
            self._task.cancel()

    async def _serve(self, handler: Handler) -> None:
        """Runs in the server's process: what the handler does, returns and raises becomes frames."""
        life = self.connection.server
        life.under_way += 1
        try:
            if self.unary:
                self.down.send(Kind.MESSAGE, bytes(await handler.call(self.method, await self.up.read() or b"", self._caller())))
            else:
                await handler.stream(self.method, Inbound(self), self._caller())
            self.down.send(Kind.END)
        except errors.Error as error:
            self.down.send(Kind.ERROR, encoded(error))
        except asyncio.CancelledError:
            self.down.send(Kind.ERROR, encoded(errors.Unavailable("The call was cancelled by the broker.")))
        except Exception as error:
            life.world.bug(life, f"the handler of {self.method} failed", error)
            self.down.send(Kind.ERROR, encoded(errors.Error("The broker failed at this call in a way that nobody foresaw.")))
        life.under_way -= 1
        self._served = True
        self.connection.forget(self)

    def _caller(self) -> Caller:
        """As with gRPC, the time of a call counts from its arrival: what travels is a span."""
        deadline = None if self._seconds is None else self.connection.network.world.loop.time() + self._seconds
        return Caller(address=self.connection.client.name, transport="simulated", deadline=deadline)


class Inbound:
    """`ports.transport.Inbound`: a call's stream as its handler sees it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def read(self) -> bytes | None:
        return await self._exchange.up.read()

    async def write(self, message: Buffer) -> None:
        await self._exchange.down.write(message)


class Listener:
    """An address that is served."""

    def __init__(self, network: Network, life: Incarnation, address: str, handler: Handler) -> None:
        self.network = network
        self.life = life
        self.address = address
        self.handler = handler

    def close(self) -> None:
        """Takes no new calls; what was sent still arrives, then the callers' connections are
        closed.
        """
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]
        if not self.life.dead:
            for connection in [each for each in self.network.connections if each.server is self.life]:
                connection.sever(connection.last_arrival() + self.network.delay(), 0.0, keep_down=True)


class Connection:
    """A connection. `severed` means that it is broken in truth, `client_knows` that the caller's
    end has learnt it.
    """

    def __init__(self, network: Network, client: Incarnation, listener: Listener, link: Link) -> None:
        self.network = network
        self.client = client
        self.server = listener.life
        self.link = link
        self.severed = False
        self.client_knows = False
        self.listener = listener
        self._exchanges: dict[int, Exchange] = {}

    # ---- calls -----------------------------------------------------------------------------------------------------

    def open(self, method: str, *, unary: bool, seconds: float | None = None) -> Exchange:
        exchange = Exchange(self, self.network.next_number(), method, unary, seconds)
        self._exchanges[exchange.number] = exchange
        exchange.up.send(Kind.OPEN, method.encode())
        return exchange

    def forget(self, exchange: Exchange) -> None:
        if not exchange.open:
            self._exchanges.pop(exchange.number, None)

    def under_way(self) -> int:
        return sum(exchange.open for exchange in self._exchanges.values())

    def last_arrival(self) -> float:
        """How many seconds from now the last frame to the caller arrives."""
        latest = max((exchange.down.last_arrival for exchange in self._exchanges.values()), default=0.0)
        return max(0.0, latest - self.network.world.loop.time())

    # ---- breaking --------------------------------------------------------------------------------------------------

    def break_anyhow(self) -> None:
        """Breaks; when its ends learn of it is drawn."""
        network, options = self.network, self.network.world.options
        felt = self.under_way() > 0
        client_after, server_after = network.delay(), network.delay()
        if network.random.random() < options.half_open:
            late = network.random.uniform(0.5, 1.5) * options.half_open_seconds
            client_after, server_after = (late, server_after) if network.random.random() < 0.5 else (client_after, late)
            network.world.fault("half-open", self.link.name, felt=felt)
        else:
            network.world.fault("connection-cut", self.link.name, felt=felt)
        self.sever(client_after, server_after)

    def sever(self, client_after: float, server_after: float, *, keep_up: bool = False, keep_down: bool = False) -> None:
        """Breaks; the ends learn it after so many seconds. What is on its way is lost, or still
        arrives in a kept direction.
        """
        if self.severed:
            return
        self.severed = True
        for exchange in self._exchanges.values():
            exchange.up.cut |= not keep_up
            exchange.down.cut |= not keep_down
        loop = self.network.world.loop
        loop.outside_later(client_after, self._client_notices)
        loop.outside_later(server_after, self._server_notices)
        self.network.connections.remove(self)

    def _client_notices(self) -> None:
        self.client_knows = True
        if not self.client.dead:
            for exchange in list(self._exchanges.values()):
                exchange.break_client()

    def _server_notices(self) -> None:
        if not self.server.dead:
            for exchange in list(self._exchanges.values()):
                exchange.break_server(self.network.delay())


class Network:
    """All of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.source("network")
        self.listeners: dict[str, Listener] = {}
        self.connections: list[Connection] = []
        self.links: dict[tuple[str, str], Link] = {}
        self._numbers = 0

    def delay(self) -> float:
        return self.world.options.delay_seconds * (0.5 + self.random.expovariate(1.0))

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def listen(self, life: Incarnation, address: str, handler: Handler) -> Listener:
        if life.dead:
            raise PowerCut(f"{life.name} is dead")
        held = self.listeners.get(address)
        if held is not None and not held.life.dead:
            raise errors.Unavailable(f"{address} is in use by another program.")
        listener = self.listeners[address] = Listener(self, life, address, handler)
        return listener

    def link(self, client: str, address: str) -> Link:
        key = (client, address.rpartition(":")[0])
        if key not in self.links:
            self.links[key] = Link(self, f"{key[0]}>{key[1]}")
        return self.links[key]

    async def connect(self, client: Incarnation, address: str) -> Connection:
        """Runs in the caller's process."""
        link = self.link(client.node.name, address)
        await asyncio.sleep(self.delay())
        now = self.world.loop.time()
        if (until := link.held(now)) > now:
            await asyncio.sleep(min(until - now, CONNECT_SECONDS))
        listener = self.listeners.get(address)
        if link.held(self.world.loop.time()) > self.world.loop.time():
            raise errors.Unavailable(f"{address} does not answer.")
        if listener is None or listener.life.dead:
            raise errors.Unavailable(f"{address} refuses the connection.", hint="Is the broker running, and is the address right?")
        connection = Connection(self, client, listener, link)
        self.connections.append(connection)
        return connection

    def lost(self, life: Incarnation, *, at_once: bool) -> int:
        """A process has died. Its system closes the connections at once, or is dark itself, and the
        others notice when they do. Returns how many calls were under way.
        """
        broken = 0
        for connection in [each for each in self.connections if life in (each.client, each.server)]:
            broken += connection.under_way()
            after = self.delay() if at_once else self.random.uniform(0.0, 1.0) * self.world.options.half_open_seconds
            arrives = self.random.random() < 0.5
            if arrives:
                after += connection.last_arrival()
            connection.sever(after, after, keep_up=arrives, keep_down=arrives)
        return broken

    def heal(self) -> None:
        for link in self.links.values():
            link.unclog()
