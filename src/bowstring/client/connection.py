"""The way to a broker: the first of the seeds that answers the handshake, and after a break the
next one that does.

The channel reconnects by itself; what it cannot know is whether the same broker is there. So after
a lost stream the kit shakes hands again before it opens the next. That also measures the broker's
clock anew and gives its limits.

The kit waits for a broker that is away until the caller's time is over, because servers are
restarted. It does not wait for a broker that has ended for good (its storage has failed, and its
program does not restart it): waiting and later calls raise at once, until a broker answers at that
address again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from bowstring import errors
from bowstring.client.broker_time import BrokerTime
from bowstring.client.presence import Presence, unanswered
from bowstring.client.routes import Routes
from bowstring.ports.calls import CALLS, is_repeatable
from bowstring.ports.clock import Clock
from bowstring.ports.randomness import Randomness
from bowstring.ports.transport import Channel, Dialer
from bowstring.version import VERSION
from bowstring.wire import forks
from bowstring.wire.generated import bowstring_pb2 as pb
from bowstring.wire.protocol import SPOKEN

SOFTWARE: Final = f"bowstring-python/{VERSION}"
"""This kit's name and version."""
PAUSE_FIRST: Final = 0.02
PAUSE_MAX: Final = 1.0
ENDED: Final = "ended"
"""The detail of an error that says that the broker has ended for good, so waiting is useless."""
HANDSHAKE_SECONDS: Final = 3.0
"""How long one seed may take to answer before the kit asks the next."""


class World(NamedTuple):
    """The ports that the kit uses."""

    dialer: Dialer
    clock: Clock
    randomness: Randomness


class Greeting(NamedTuple):
    """The broker's answer to the handshake."""

    address: str
    software: str
    protocol: int
    cluster: bytes
    incarnation: int
    batch_bytes_max: int
    publish_window: int


class Ending:
    """Whether the broker of a client has ended for good. All connections of the client share it."""

    def __init__(self) -> None:
        self.told: errors.Error | None = None


class Pauses:
    """Waits between attempts: short at first, doubling, with jitter so that many clients do not
    come back at the same instant.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seconds = PAUSE_FIRST

    def reset(self) -> None:
        """It went well: the next wait is a short one again."""
        self._seconds = PAUSE_FIRST

    async def wait(self, seconds_max: float = PAUSE_MAX) -> None:
        """Waits, and makes the next one longer."""
        seconds = min(self._seconds, seconds_max) * (0.5 + 0.5 * self._world.randomness.unit())
        self._seconds = min(self._seconds * 2, PAUSE_MAX)
        await self._world.clock.sleep(seconds)


class Connection:
    """One connection: idle at first, then a producer's or a reader's."""

    def __init__(
        self,
        seeds: Sequence[str],
        world: World,
        broker_time: BrokerTime,
        name: str,
        fits: Callable[[Greeting], bool],
        greeted: Callable[[Greeting], object],
        ending: Ending | None = None,
        presence: Presence | None = None,
        routes: Routes | None = None,
    ) -> None:
        self._ending = ending or Ending()
        self.seeds = list(seeds)
        self.world = world
        self.broker_time = broker_time
        self._name = name
        self._fits = fits
        self._greeted = greeted
        self._presence = presence or Presence(world.clock)
        self.routes = routes or Routes()
        """Which broker serves a partition, as far as it is another one than this connection's."""
        self._channel: Channel | None = None
        self._address = ""
        self._closed = False
        self._generation = forks.generation()

    def another(self) -> Connection:
        """A connection of its own for a producer or a reader; it begins where this one has come to."""
        seeds = sorted(self.seeds, key=lambda seed: seed != self._address)
        shared = self._ending, self._presence, self.routes
        return Connection(seeds, self.world, self.broker_time, self._name, self._fits, self._greeted, *shared)

    def to(self, address: str) -> Connection:
        """A connection to this broker alone. Its absence is not the absence of all, so it keeps
        that to itself.
        """
        return Connection([address], self.world, self.broker_time, self._name, self._fits, lambda greeting: None, routes=self.routes)

    @property
    def address(self) -> str:
        """The broker of the last handshake; empty before the first."""
        return self._address

    async def hello(self, seconds: float = HANDSHAKE_SECONDS) -> Greeting:
        """Shakes hands with the broker of this connection, else with the next seed that answers;
        one round over all of them, each with this time limit.
        """
        began, failures = self.world.clock.monotonic(), dict[str, str]()
        ended: errors.Error | None = None
        for seed in sorted(self.seeds, key=lambda seed: seed != self._address):
            try:
                greeting = await self._greet(seed, seconds)
            except errors.Unavailable as error:
                failures[seed] = _reason(error)
                ended = self.given_up(error) or ended
            else:
                self._presence.met(seed)
                return greeting
        told = "; ".join(f"{seed}: {reason}" for seed, reason in failures.items())
        self._presence.missed(told, began)
        if ended is not None:
            raise ended
        reason = told if len(failures) > 1 else next(iter(failures.values()))
        hint = "Is it running, and is the address right?"
        raise errors.Unavailable(f"no broker answers at {told}.", hint=hint, details={"reason": reason})

    async def _greet(self, seed: str, seconds: float) -> Greeting:
        channel = await self._dialled(seed)
        clock = self.world.clock
        request = pb.HelloRequest(
            software=SOFTWARE, protocol=SPOKEN.newest, protocol_min=SPOKEN.oldest, client_time=clock.now(), name=self._name
        ).SerializeToString()
        asked = clock.monotonic()
        answer = _greeting(seed, await channel.call("Hello", request, seconds))
        answered = clock.monotonic()
        limits = answer.batch_bytes_max, answer.publish_window
        greeting = Greeting(seed, answer.software, answer.protocol, answer.cluster, answer.incarnation, *limits)
        if not self._fits(greeting):
            self._channel, self._address = None, ""
            await channel.close()
            raise errors.Unavailable("it serves other data than the broker that this client was connected to.")
        self.broker_time.measured(answer.broker_time, asked, answered, answer.keeping_time)
        self._ending.told = None
        self._greeted(greeting)
        return greeting

    def given_up(self, error: errors.Error) -> errors.Error | None:
        """The error to raise instead of trying again, if the broker has ended for good. With other
        seeds, another broker may take over.
        """
        if ENDED in error.details:
            self._ending.told = error if len(self.seeds) == 1 else None
            return error
        told = self._ending.told
        return None if told is None else type(told)(told.message, hint=told.hint, details=told.details)

    async def _dialled(self, seed: str) -> Channel:
        self._check_open()
        if self._channel is None or self._address != seed:
            old, self._channel, self._address = self._channel, self.world.dialer.dial(seed), seed
            if old is not None:
                await old.close()
        return self._channel

    def check_process(self) -> None:
        """Raises Conflict in a forked child: the connection is its parent's."""
        forks.check(self._generation)

    def _check_open(self) -> None:
        self.check_process()
        if self._closed:
            raise errors.Conflict("this connection is closed.", hint="Connect again.")

    @property
    def channel(self) -> Channel:
        """The channel that the last handshake went over."""
        self._check_open()
        if self._channel is None:
            raise errors.Unavailable("there is no connection.", hint="Wait and repeat.")
        return self._channel

    async def call(self, method: str, request: bytes, seconds: float) -> bytes:
        """Repeats a call until it is answered or the time is over. Only for calls that the table
        calls repeatable.
        """
        if not is_repeatable(method):
            raise AssertionError(f"{method} is not repeatable: use `change`")
        pauses = Pauses(self.world)
        deadline = self.world.clock.monotonic() + seconds
        while True:
            try:
                return await self._attempt(method, request, deadline)
            except (errors.Unavailable, errors.OutcomeUnknown) as error:
                self._give_up(error, deadline, seconds)
            await self._again(pauses, deadline)

    async def change(self, method: str, request: bytes, seconds: float) -> bytes | None:
        """Repeats a call that the table calls not repeatable until it is answered or the time is
        over. Gives None if an attempt got no answer and a later one hears that the work is done:
        then this call has done it.
        """
        pauses = Pauses(self.world)
        deadline = self.world.clock.monotonic() + seconds
        lost: errors.Error | None = None
        while True:
            try:
                return await self._attempt(method, request, deadline)
            except (errors.Unavailable, errors.OutcomeUnknown) as error:
                if lost is not None and (ended := self.given_up(error)) is not None:
                    raise errors.OutcomeUnknown(ended.message, hint=ended.hint, details=ended.details) from None
                lost = lost if isinstance(lost, errors.OutcomeUnknown) else error
                self._give_up(lost, deadline, seconds)
            except errors.Error as error:
                if lost is None or type(error) is not CALLS[method].done:
                    raise
                return None
            await self._again(pauses, deadline)

    async def _attempt(self, method: str, request: bytes, deadline: float) -> bytes:
        """Makes a call once, over the channel that is there, or over a new one."""
        left = max(deadline - self.world.clock.monotonic(), 0.01)
        if self._channel is None:
            await self.hello(min(left, HANDSHAKE_SECONDS))
        return await self.channel.call(method, request, left)

    def _give_up(self, error: errors.Error, deadline: float, seconds: float) -> None:
        """Raises the error of a call that was tried for this long, if the time is over, or the
        broker has ended for good.
        """
        if (ended := self.given_up(error)) is not None:
            raise ended from None
        if deadline - self.world.clock.monotonic() <= PAUSE_MAX / 10 or isinstance(error, errors.DeadlinePassed):
            raise error if type(error) is not errors.Unavailable else unanswered(self.seeds, seconds, _reason(error), error) from error

    async def _again(self, pauses: Pauses, deadline: float) -> None:
        """Waits, and moves to another seed that answers, if there is one and this one does not."""
        await pauses.wait(min(PAUSE_MAX, max(deadline - self.world.clock.monotonic(), 0.01)))
        if len(self.seeds) > 1:
            left = max(deadline - self.world.clock.monotonic(), 0.01)
            with suppress(errors.Unavailable):
                await self.hello(min(left, HANDSHAKE_SECONDS))

    def unanswered(self, seconds: float) -> errors.Unavailable:
        """The error of a call that was tried for this long without an answer."""
        return unanswered(self.seeds, seconds, self._presence.reason or "there was no answer in time")

    async def connect(self, seconds: float) -> Greeting:
        """Shakes hands, again and again until the time is over."""
        pauses = Pauses(self.world)
        deadline = self.world.clock.monotonic() + seconds
        last: errors.Unavailable | None = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        return await self.hello()
                    except errors.Unavailable as error:
                        last = error
                        if self.given_up(error) is not None:
                            raise
                    if self.world.clock.monotonic() >= deadline:
                        raise last
                    await pauses.wait()
        except TimeoutError:
            pass
        raise last or errors.Unavailable(
            f"no broker answered within {seconds:g} s at {', '.join(self.seeds)}.", hint="Is it running, and is the address right?"
        )

    async def close(self) -> None:
        """Ends the connection, and the streams on it."""
        self._closed = True
        if self._channel is not None and self._generation == forks.generation():
            channel, self._channel = self._channel, None
            await channel.close()


def _reason(error: errors.Error) -> str:
    return error.details.get("reason", error.message).rstrip(".")


def _greeting(seed: str, answer: bytes) -> pb.HelloAnswer:
    """Parses an answer, if it is the greeting of a broker."""
    try:
        greeting = pb.HelloAnswer.FromString(answer)
    except DecodeError:
        greeting = pb.HelloAnswer()
    if not greeting.protocol or not greeting.broker_time:
        raise errors.NotSupported(f"what answers at {seed} is not a Bowstring broker.", hint="Is the address right?")
    if greeting.protocol not in SPOKEN:
        raise errors.NotSupported(
            f"the broker at {seed} ({greeting.software}) speaks version {greeting.protocol} of the protocol, "
            f"this client ({SOFTWARE}) speaks {SPOKEN}.",
            hint="Use a newer client." if greeting.protocol > SPOKEN.newest else "Use a newer broker, or an older client.",
        )
    return greeting
