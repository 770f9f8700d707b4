"""The network between nodes: who listens where, which connections there are, and how they break.

A connection carries the bytes of many calls, and all of them break with it, at any byte. Its two
ends learn of that at different times: at once, or one end long after the other (half-open), or
nobody ever tells them (silent, in both directions or in one), and then their keepalive has to find
out. Links can be clogged: then everything between two machines is held for a while, and delivered
afterwards, or never. The kernel of a process that has died ends its connections; the kernel of a
machine without power says nothing. No byte is delivered to a dead process, and none that it wrote
after its death is sent.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring import errors
from bowstring.ports.calls import CALLS
from bowstring.ports.transport import Handler
from bowstring.settings import Settings
from bowstring.wire import native_client
from bowstring.wire.native_server import PATIENCE, NativeServer, Patience
from bowstring.wire.stream_limits import StreamLimits
from tests.history.violations import Violation
from tests.simulation.byte_stream import ByteWay, SimulatedSocket
from tests.simulation.ledger import Ledger, LedgerHandler
from tests.simulation.loop import PowerCut

if TYPE_CHECKING:
    from tests.simulation.node import Incarnation
    from tests.simulation.world import World

STREAMS_MAX = 10_000
FIRST_PORT = 40_000
MARGIN_SECONDS = 10.0
"""How much later than it says a keepalive may notice, for clogs and pauses."""
HANDLERS_SECONDS = 20.0
"""So long handlers may take to end when their connection is gone, also on a slow disk."""


class Link:
    """The way between two machines. A clog counts as a fault once it has held something."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self._network = network
        self._held_until = 0.0
        self._unclogged = -MARGIN_SECONDS
        self._felt = True

    def clog(self, seconds: float) -> None:
        self._held_until = max(self._held_until, self._network.world.loop.time() + seconds)
        self._felt = False

    def unclog(self) -> None:
        self._unclogged = self._network.world.loop.time()
        self._held_until = 0.0

    def is_sound(self, now: float) -> bool:
        """Whether nothing was held for a while."""
        since = max(self._unclogged, self._held_until or self._unclogged)
        return now - since > MARGIN_SECONDS

    def held(self, now: float) -> float:
        """Until when something that would arrive now is held."""
        if self._held_until > now and not self._felt:
            self._felt = True
            self._network.world.fault("clog", self.name)
        return self._held_until


class Listener:
    """An address that is served, by the product's own server."""

    def __init__(self, network: Network, life: Incarnation, address: str, handler: Handler) -> None:
        self.network = network
        self.life = life
        self.address = address
        limits = StreamLimits(streams_max=STREAMS_MAX, connection_streams_max=STREAMS_MAX)
        batch_bytes_max = Settings().batch_bytes_max
        served = LedgerHandler(handler, life, network.ledger)
        self.native = NativeServer(served, limits, batch_bytes_max=batch_bytes_max, connections_max=STREAMS_MAX, patience=network.patience)

    async def stop(self, grace: float) -> None:
        """Takes no new connections and no new calls; those under way get some time."""
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]
        await self.native.stop(grace)


class Connection:
    """Two sockets and the ways between them."""

    def __init__(self, network: Network, client: Incarnation, listener: Listener, link: Link) -> None:
        self.network = network
        self.number = network.next_number()
        self.client = client
        self.server = listener.life
        self.link = link
        self.severed = False
        """The world has broken it."""
        name = f"{client.name}>{listener.life.name}#{self.number}"
        self.near = SimulatedSocket(self, client, f"{name} down", (listener.life.name, FIRST_PORT))
        """The client's end; `far` is the server's."""
        self.far = SimulatedSocket(self, listener.life, f"{name} up", (client.name, FIRST_PORT + self.number))
        self._up = ByteWay(self, self.near, self.far)
        self._down = ByteWay(self, self.far, self.near)
        self.near.join(self._up, self._down)
        self.far.join(self._down, self._up)
        self._listener = listener

    def accept(self) -> None:
        """Runs in the server's process."""
        if self.far.is_lost:
            return
        if self.network.listeners.get(self._listener.address) is not self._listener:
            self.far.die()
            self._tell(self.near)
            return
        self.far.attach(self._listener.native.connection())

    def other(self, socket: SimulatedSocket) -> SimulatedSocket:
        return self.far if socket is self.near else self.near

    def under_way(self) -> int:
        """How many calls are open."""
        ends = [end.protocol for end in (self.near, self.far) if end.protocol is not None]
        return max((len(protocol.calls) for protocol in ends), default=0)

    @property
    def is_whole(self) -> bool:
        """Whether nothing stands between the two ends."""
        if self.severed or self.network.world.options.bytes_a_second:  # on a slow way a question waits behind all that was sent before
            return False
        sound = self.link.is_sound(self.network.world.loop.time())
        return sound and not any(end.is_lost or end.life.dead or end.life.paused for end in (self.near, self.far))

    # ---- how it ends -----------------------------------------------------------------------------------------------

    def break_anyhow(self, *, whole: bool = False) -> None:
        """Breaks; when its ends learn of it is drawn. `whole` lets everything arrive that is on its
        way."""
        network, options = self.network, self.network.world.options
        if self.severed:
            return
        felt = self.under_way() > 0
        network.world.sometimes("answer lost after the call was carried out", self._unheard())
        client_after, server_after = network.delay(), network.delay()
        chance = network.random.random()
        if network.silences.random() < options.silent:
            network.world.fault("silence", self.link.name, felt=felt)
            self._fall_silent()
            return
        if chance < options.half_open:
            late = network.random.uniform(0.5, 1.5) * options.half_open_seconds
            client_after, server_after = (late, server_after) if network.random.random() < 0.5 else (client_after, late)
            network.world.fault("half-open", self.link.name, felt=felt)
        else:
            network.world.fault("connection-cut", self.link.name, felt=felt)
        self._sever()
        if not whole:
            self._up.lose()
            self._down.lose()
        if network.random.random() < 0.5:  # word of the break comes behind the last byte
            client_after, server_after = client_after + self._down.arrives_in(), server_after + self._up.arrives_in()
        self._up.broken = self._down.broken = True
        network.world.loop.outside_later(client_after, self.near.reset)
        network.world.loop.outside_later(server_after, self.far.reset)

    def _unheard(self) -> bool:
        """Whether the server has answered a call, and the client has not heard it yet."""
        near, far = self.near.protocol, self.far.protocol
        if near is None or far is None:
            return False
        unary = [number for number, call in near.calls.items() if call.method in CALLS and not CALLS[call.method].stream]
        return any(number <= far._newest and number not in far.calls for number in unary)

    def _fall_silent(self) -> None:
        """Nothing arrives any more in both directions or in one, and nobody is told."""
        self._sever()
        ways = self.network.silences.choice(((self._up, self._down), (self._up, self._down), (self._up,), (self._down,)))
        for way in (self._up, self._down):
            if way in ways:
                way.lose()
            else:
                way.acknowledged = False
        patience, (silent_seconds, patient_seconds) = self.network.patience, self.network.pulse
        patient = patience.silent + 2 * patience.patient + MARGIN_SECONDS
        quick = silent_seconds + 2 * patient_seconds + MARGIN_SECONDS
        # What still hears its peer in one direction may wait until the peer has given up.
        later = 0.0 if len(ways) > 1 else patient
        self.network.expect_notice(self.near, quick + later)
        self.network.expect_notice(self.far, patient + later)

    def _sever(self) -> None:
        self.severed = True
        self._leave()

    def _leave(self) -> None:
        if self in self.network.connections:
            self.network.connections.remove(self)

    def _tell(self, socket: SimulatedSocket) -> None:
        self.network.world.loop.outside_later(self.network.delay(), socket.reset)

    def given_up(self, socket: SimulatedSocket) -> None:
        """A process aborts the connection."""
        world = self.network.world
        silent = world.loop.time() - socket.heard >= self.network.pulse[0]
        world.sometimes("ping timed out", silent and not socket.is_closing())
        quiet = world.loop.time() - socket.heard
        if self.is_whole and socket is self.near and socket.protocol.calls and not socket.is_closing():
            case = f"{socket.life.name} gave up a sound connection with {len(socket.protocol.calls)} calls after {quiet:.1f} s of silence"
            self.network.violations.append(Violation("a_sound_connection_is_kept", case))

    def hung_up(self, socket: SimulatedSocket) -> None:
        """A process has closed its end: the other learns it behind the last byte, or at once."""
        self.ended(socket)
        way = self._up if socket is self.near else self._down
        if self.severed:
            return
        if self.network.random.random() < 0.7:
            way.finish()
        else:
            self._tell(self.other(socket))

    def ended(self, socket: SimulatedSocket) -> None:
        """The connection is gone for one end."""
        self._leave()
        self.network.world.loop.outside_later(HANDLERS_SECONDS, self.network.check_handlers, socket)

    def refused(self, socket: SimulatedSocket) -> None:
        """Bytes have come to an end that is closed: its kernel says so."""
        if not self.severed:
            self._tell(self.other(socket))

    def lost(self, life: Incarnation, *, at_once: bool) -> int:
        """A process at one end has died. Gives how many calls that has broken."""
        network = self.network
        broken = self.under_way()
        dead, left = (self.near, self.far) if life is self.client else (self.far, self.near)
        was_severed, was_lost = self.severed, dead.is_lost
        dead.die()
        if was_severed or was_lost:
            return broken
        if at_once:
            self._leave()
            if network.random.random() < 0.5:
                dead.out.finish()
            else:
                self._tell(left)
            return broken
        if network.silences.random() < network.world.options.silent:
            self._fall_silent()
            return broken
        self._sever()
        if network.random.random() < 0.5:
            self._up.lose()
            self._down.lose()
        self._up.broken = self._down.broken = True
        after = network.random.uniform(0.0, 1.0) * network.world.options.half_open_seconds
        network.world.loop.outside_later(after, left.reset)
        return broken


class Network:
    """All of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.source("network")
        self.silences = world.source("silences")
        self.listeners: dict[str, Listener] = {}
        self.connections: list[Connection] = []
        self.links: dict[tuple[str, str], Link] = {}
        self.violations: list[Violation] = []
        """What sockets and calls were seen to do wrong."""
        self.ledger = Ledger(world, self.violations)
        self._all: list[Connection] = []
        self._numbers = 0

    @property
    def patience(self) -> Patience:
        """How long servers wait in this world."""
        quicker = self.world.options.keepalive
        return PATIENCE._replace(silent=PATIENCE.silent * quicker, patient=PATIENCE.patient * quicker)

    @property
    def pulse(self) -> tuple[float, float]:
        """When clients ask a silent broker whether it is there, and how long they wait then."""
        quicker = self.world.options.keepalive
        return native_client.SILENT_SECONDS * quicker, native_client.PATIENT_SECONDS * quicker

    def delay(self) -> float:
        return self.world.options.delay_seconds * (0.5 + self.random.expovariate(1.0))

    def seconds(self, count: int) -> float:
        """How long so many bytes take on a slow way."""
        rate = self.world.options.bytes_a_second
        return count / rate if rate and self.world.faulty else 0.0

    def cuts_now(self) -> bool:
        rate = self.world.options.cut_rate
        return rate > 0.0 and self.world.faulty and self.random.random() < rate

    def splits_now(self) -> bool:
        rate = self.world.options.split_rate
        return rate > 0.0 and self.random.random() < rate

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

    async def connect(self, client: Incarnation, protocol: Callable[[], Any], address: str) -> SimulatedSocket:
        """Runs in the caller's process, which limits the time."""
        link = self.link(client.node.name, address)
        await asyncio.sleep(self.delay())
        while (held := link.held(self.world.loop.time()) - self.world.loop.time()) > 0.0:  # noqa: ASYNC110
            await asyncio.sleep(held)
        listener = self.listeners.get(address)
        if listener is not None and listener.life.is_dark and self.silences.random() < 0.5:
            await asyncio.Event().wait()  # no kernel is there to refuse
        if listener is None or listener.life.dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        connection = Connection(self, client, listener, link)
        self.connections.append(connection)
        self._all = [each for each in self._all if not (each.near.is_lost and each.far.is_lost)]
        self._all.append(connection)
        connection.near.attach(protocol())
        self.world.loop.call_later(self.delay(), connection.accept, context=listener.life.context)
        return connection.near

    def expect_notice(self, socket: SimulatedSocket, seconds: float) -> None:
        """Nobody tells this end that its peer is gone: it has to find out."""
        self.world.loop.outside_later(seconds, self._check_noticed, socket, seconds)

    def _check_noticed(self, socket: SimulatedSocket, seconds: float) -> None:
        if socket.is_lost or socket.protocol is None:
            return
        quiet = self.world.loop.time() - socket.heard
        if quiet < seconds or socket.life.paused:
            self.expect_notice(socket, max(seconds - quiet, 1.0))
            return
        case = f"{socket.life.name} has heard nothing for {quiet:.0f} s, and keeps the connection"
        self.violations.append(Violation("a_silent_peer_is_given_up", case))

    def check_handlers(self, socket: SimulatedSocket) -> None:
        """Streams end with their connection."""
        if socket.handlers and not socket.life.dead and not socket.life.paused:
            case = f"{socket.life.name} serves {socket.handlers} streams whose connection is gone"
            self.violations.append(Violation("handlers_end_with_their_connection", case))

    def lost(self, life: Incarnation, *, at_once: bool) -> int:
        """A process has died. Its system closes the connections at once, or is dark itself, and the
        others notice when they do. Returns how many calls were under way.
        """
        return sum(connection.lost(life, at_once=at_once) for connection in self._all if life in (connection.client, connection.server))

    def heal(self) -> None:
        for link in self.links.values():
            link.unclog()
