"""Every way in which a connection breaks, and what its two ends learn of it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bowstring import errors
from bowstring.ports.transport import Caller, Channel, Inbound
from tests.simulation.echo import ADDRESS, ECHO, ECHOES, SLOW, Echo, only_connection, run, server
from tests.simulation.node import Incarnation
from tests.simulation.options import Options
from tests.simulation.world import World

# ---- breaking ---------------------------------------------------------------------------------------------------------


def test_nobody_there_is_unavailable_and_a_channel_connects_again_by_itself():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        nobody = life.dialer.dial("nowhere:1")
        with pytest.raises(errors.Unavailable, match="nothing listens there"):
            await nobody.call(ECHO, b"", 5.0)
        with pytest.raises(errors.Unavailable, match="nothing listens there"):
            await nobody.stream(ECHOES).read()
        assert await channel.call(ECHO, b"1", 5.0) == b"1!"
        server(world).crash()
        with pytest.raises(errors.Unavailable):
            await channel.call(ECHO, b"2", 5.0)
        server(world).restart()
        await asyncio.sleep(1.0)
        assert await channel.call(ECHO, b"3", 5.0) == b"3!"

    run(steps)


def test_a_cut_connection_is_unavailable_on_both_sides_and_what_was_on_its_way_may_be_lost():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(b"x")
        assert await stream.read() == b"x"
        call = asyncio.create_task(channel.call(SLOW, b"", 60.0))
        await asyncio.sleep(1.0)
        only_connection(world).break_anyhow()
        with pytest.raises(errors.Unavailable):
            await stream.read()
        with pytest.raises(errors.Unavailable):
            await call
        await asyncio.sleep(30.0)

    world, echo = run(steps)
    assert world.faults == {"connection-cut": 1}
    assert "stream broken" in echo.told or "stream cancelled" in echo.told


def test_a_half_open_connection_is_noticed_by_one_side_long_before_the_other():
    noticed: list[tuple[float, float]] = []

    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(b"x")
        await stream.read()
        only_connection(world).break_anyhow()
        cut = world.loop.time()
        with pytest.raises(errors.Unavailable):
            await stream.read()
        client = world.loop.time() - cut
        await asyncio.sleep(100.0)
        noticed.append((client, times.pop() - cut))

    times: list[float] = []

    class Noticing(Echo):
        async def stream(self, method: str, inbound: Inbound, caller: Caller) -> None:
            try:
                await super().stream(method, inbound, caller)
            finally:
                times.append(asyncio.get_running_loop().time())

    async def main(world: World) -> None:
        async def serve(life: Incarnation) -> None:
            life.listen(ADDRESS, Noticing())
            await asyncio.Event().wait()

        world.node("server").start(serve)
        await asyncio.sleep(0.01)
        await world.node("client", disk=False).start(lambda life: steps(world, life, life.dialer.dial(ADDRESS))).ended
        assert world.faults == {"half-open": 1}

    for seed in range(20):
        World(seed, Options(half_open=1.0, half_open_seconds=20.0)).run(main)
    assert any(client < 1.0 and late > 5.0 for client, late in noticed)
    assert any(late < 1.0 and client > 5.0 for client, late in noticed)


def test_an_answer_can_be_lost_after_the_call_was_carried_out():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        for _ in range(50):
            try:
                await channel.call(ECHO, b"", 5.0)
                outcomes["answered"] += 1
            except errors.Unavailable:
                outcomes["unavailable"] += 1

    outcomes: Counter[str] = Counter()
    world, echo = run(steps, Options(cut_rate=0.1))
    assert world.faults["connection-cut"] > 5
    assert echo.told.count(f"{ECHO} ended") > outcomes["answered"] > 5
    assert world.reached["answer lost after the call was carried out"]


def test_a_clogged_link_holds_messages_and_delivers_them_afterwards():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        await channel.call(ECHO, b"", 5.0)
        link = world.network.link("client", ADDRESS)
        link.clog(9.0)
        assert not world.faults, "a clog that holds nothing is no fault"
        started = world.loop.time()
        assert await channel.call(ECHO, b"x", 60.0) == b"x!"
        assert world.loop.time() - started == pytest.approx(9.0, abs=1.0)
        assert world.faults == {"clog": 1}

    run(steps)


def test_a_silent_connection_is_given_up_by_both_ends_though_nobody_tells_them():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(b"x")
        await stream.read()
        only_connection(world).break_anyhow()
        begun = world.loop.time()
        with pytest.raises(errors.Unavailable, match="broke"):
            await stream.read()
        noticed.append(world.loop.time() - begun)
        await asyncio.sleep(200.0)

    noticed: list[float] = []
    for seed in range(10):
        world, echo = run(steps, Options(silent=1.0), seed)
        assert world.faults == {"silence": 1}
        assert echo.told in (["stream broken"], ["stream cancelled"])
        assert world.reached["ping timed out"] == 2
        assert not world.network.violations
    assert min(noticed) > 10.0
    assert max(noticed) < 60.0


def test_a_clog_that_lasts_is_taken_for_a_break():
    async def steps(world: World, life: Incarnation, channel: Channel) -> None:
        await channel.call(ECHO, b"", 5.0)
        world.network.link("client", ADDRESS).clog(30.0)
        with pytest.raises(errors.Unavailable, match="broke"):
            await channel.call(ECHO, b"x", 60.0)
        assert world.loop.time() < 20.0
        with pytest.raises(errors.Unavailable, match="does not answer"):
            await channel.call(ECHO, b"x", 60.0)
        await asyncio.sleep(20.0)
        assert await channel.call(ECHO, b"x", 60.0) == b"x!"

    run(steps)


@pytest.mark.parametrize("how", ["crash", "power_cut"])
def test_a_dead_client_is_noticed_and_a_dead_server_too(how):
    async def client(world: World, life: Incarnation, channel: Channel) -> None:
        stream = channel.stream(ECHOES)
        await stream.write(b"x")
        await stream.read()
        if life.number == 1:
            getattr(life.node, how)()
            raise ValueError("whatever a process does while it dies is no bug")
        getattr(server(world), how)()
        with pytest.raises(errors.Unavailable):
            await stream.read()

    world, echo = World(1), Echo()

    async def serve(life: Incarnation) -> None:
        life.listen(ADDRESS, echo)
        await asyncio.Event().wait()

    async def main(world: World) -> None:
        world.node("server").start(serve)
        node = world.node("client", disk=False)
        await node.start(lambda life: client(world, life, life.dialer.dial(ADDRESS))).ended
        await asyncio.sleep(60.0)
        assert echo.told in (["stream broken"], ["stream cancelled"])
        await node.restart().ended

    world.run(main)


def test_nothing_is_delivered_to_the_dead_nor_sent_by_them():
    async def main(world: World) -> None:
        received: list[bytes] = []

        class Last(Echo):
            async def call(self, method: str, request: bytes, caller: Caller) -> bytes:
                try:
                    await asyncio.sleep(1.0)
                    life = world.nodes[0].incarnation
                    assert life is not None
                    life.disk.drive.arm("power-cut", 1)
                    life.disk.unlink("a")
                finally:
                    received.append(b"the handler's last step")
                return b"never"

        async def serve(life: Incarnation) -> None:
            await life.disk.create("a", 10)
            life.listen(ADDRESS, Last())
            await asyncio.Event().wait()

        async def ask(life: Incarnation) -> None:
            channel = life.dialer.dial(ADDRESS)
            with pytest.raises(errors.Unavailable):
                received.append(await channel.call(ECHO, b"", 60.0))

        world.node("server").start(serve)
        await asyncio.sleep(0.1)
        await world.node("client", disk=False).start(ask).ended
        assert received == [b"the handler's last step"]
        assert world.reached["power-cut inside a disk operation"] == 1

    World(1).run(main)


def test_a_closed_listener_refuses_new_calls_and_its_address_can_be_taken_again():
    async def main(world: World) -> None:
        async def serve(life: Incarnation) -> None:
            listener = life.listen(ADDRESS, Echo())
            with pytest.raises(errors.Unavailable):
                life.listen(ADDRESS, Echo())
            await asyncio.sleep(1.0)
            await listener.stop(1.0)
            await asyncio.sleep(1.0)
            life.listen(ADDRESS, Echo())
            await asyncio.Event().wait()

        async def ask(life: Incarnation) -> None:
            channel = life.dialer.dial(ADDRESS)
            assert await channel.call(ECHO, b"", 5.0) == b"!"
            await asyncio.sleep(1.5)
            with pytest.raises(errors.Unavailable):
                await channel.call(ECHO, b"", 5.0)
            await asyncio.sleep(1.0)
            assert await channel.call(ECHO, b"", 5.0) == b"!"
            await channel.close()
            with pytest.raises(errors.Unavailable):
                await channel.call(ECHO, b"", 5.0)

        world.node("server").start(serve)
        await asyncio.sleep(0.1)
        await world.node("client", disk=False).start(ask).ended

    World(1).run(main)
