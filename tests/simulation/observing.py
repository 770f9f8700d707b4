"""A process that looks at the positions of other clients all the time, as a monitor of the lag
does.

It sees the commits of others before they have their answers. So it is the client that sees a
position too early.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bowstring import errors
from tests.simulation.reading import connected_client

if TYPE_CHECKING:
    from bowstring.client.client import Client
    from tests.simulation.node import Incarnation
    from tests.simulation.workload import Workload

PAUSE_SECONDS = 0.01
LOOKS_MAX = 10
"""It does not wait for one answer before it asks again: the moment in which a position is seen too
early is short.
"""


class PositionObserver:
    """One client process."""

    def __init__(self, workload: Workload, life: Incarnation) -> None:
        self._workload, self._life = workload, life
        self._random = workload.world.source(f"{life.name}/observer")
        self._seen: dict[tuple[str, str], dict[int, int]] = {}
        """What was written down last, by topic and name: the same again says nothing new."""

    async def run(self) -> None:
        client = await connected_client(self._workload, self._life)
        await self._workload.made.wait()
        looks: set[asyncio.Task[None]] = set()
        while not self._workload.over:
            look = asyncio.create_task(self._look(client, self._random.choice(sorted(self._workload.topics.all))))
            looks.add(look)
            look.add_done_callback(looks.discard)
            await self._workload.pause(self._life, PAUSE_SECONDS)
            if len(looks) >= LOOKS_MAX:
                await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
        if looks:
            await asyncio.wait(looks)
        await client.close()

    async def _look(self, client: Client, topic: str) -> None:
        asked = self._workload.world.loop.time()
        try:
            async for position in client.positions(topic):
                self._note(topic, position.name, position.offsets, asked)
        except (errors.Unavailable, errors.TopicNotFound, errors.OutcomeUnknown):
            self._workload.world.sometimes("an observer got no answer")

    def _note(self, topic: str, name: str, offsets: dict[int, int], asked: float) -> None:
        if self._seen.get((topic, name)) != offsets:
            self._seen[topic, name] = offsets
            self._workload.history.observed(self._life.name, topic, name, offsets, asked)
            self._workload.world.sometimes("position seen by another")
