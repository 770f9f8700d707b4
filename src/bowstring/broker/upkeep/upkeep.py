"""What a broker does beside its flushes, one thing after the other: retention, seal, clearing away, cleaning, making room.

They all change where things are, so they take turns in one task and never meet each other. Each turn is a moment's work in small steps. A
full disk or a damaged page is told the observer and tried again at a later turn; anything worse ends the incarnation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from bowstring.broker.upkeep.cleaner import Cleaner
from bowstring.broker.upkeep.retention import Retention
from bowstring.broker.upkeep.sealer import Sealer
from bowstring.ports.failures import Damaged, DiskFull

if TYPE_CHECKING:
    from bowstring.broker.incarnation import Incarnation

ROWS_A_STEP = 100


class Upkeep:
    """The household of one incarnation."""

    def __init__(self, incarnation: Incarnation, *, trimmed: int, deleted: list[int]) -> None:
        self._incarnation = incarnation
        self._deleted = dict.fromkeys(deleted)
        """Topics whose rows in the catalog are to be cleared away."""
        self.sealer = Sealer(incarnation, trimmed)
        self.retention = Retention(incarnation)
        self.cleaner = Cleaner(incarnation)
        self._task: asyncio.Task[None] | None = None
        self._troubles: dict[str, str] = {}
        """What kept each kind of work from being done, so that it is told once."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def deleted(self, topic: int) -> None:
        """A topic was deleted."""
        self._deleted[topic] = None

    async def _run(self) -> None:
        try:
            while True:
                await self._incarnation.clock.sleep(self._incarnation.settings.upkeep_seconds)
                await self._turn()
        except asyncio.CancelledError:
            raise
        except Exception as failure:
            self._incarnation.flusher.fail(failure)

    async def _turn(self) -> None:
        clock = self._incarnation.clock
        for kind, work in self._works():
            name, counted, begun = work.__qualname__, self._incarnation.counters.work(kind), clock.monotonic()
            try:
                await work()
                self._troubles.pop(name, None)
            except (DiskFull, Damaged) as failure:
                if self._troubles.get(name) != str(failure):
                    self._incarnation.observer.note("upkeep-postponed", work=name, problem=str(failure))
                self._troubles[name] = str(failure)
                counted.troubles += 1
            counted.turns += 1
            counted.seconds += clock.monotonic() - begun

    def _works(self) -> tuple[tuple[str, Callable[[], Coroutine[None, None, None]]], ...]:
        """Each kind of work, by the name under which it is counted."""
        return (
            ("retention", self.retention.turn),
            ("seal", self._seal),
            ("clear", self._clear_away),
            ("clean", self.cleaner.turn),
            ("give-back", self._give_back),
        )

    async def _seal(self) -> None:
        if self.sealer.is_due:
            await self.sealer.seal()

    async def _clear_away(self) -> None:
        """Rows of deleted topics go, some at a time, and with them what they use."""
        incarnation = self._incarnation
        for topic in list(self._deleted):
            while await incarnation.journal.forget_topic(topic, ROWS_A_STEP):
                pass
            incarnation.usage.reset_sealed(await incarnation.journal.usage())
            del self._deleted[topic]

    async def _give_back(self) -> None:
        """Segments that nothing uses any more are used again, and if the disk was full, there may be room now."""
        incarnation = self._incarnation
        unused = incarnation.usage.unused(incarnation.store.segments())
        if unused:
            await incarnation.check_fence()  # a successor may use what we take to be free
            await incarnation.store.release(unused)
            incarnation.counters.released += len(unused)
        await incarnation.store.make_room()
        if incarnation.reserve is not None:
            await incarnation.reserve.hold()
        incarnation.look_for_room()
