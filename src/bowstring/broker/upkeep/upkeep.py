"""The work between the flushes, one thing after the other: retention, seal, clearing away,
cleaning, making room.

They all change where things are, so they take turns in one task and never meet each other. Each
turn is a moment's work in small steps. It reports a full disk or a damaged page to the observer,
and tries again at a later turn; anything worse ends the incarnation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from bowstring.broker.log.log import Log
from bowstring.broker.reading.reading import Reading
from bowstring.broker.surroundings import Surroundings
from bowstring.broker.upkeep.cleaner import Cleaner
from bowstring.broker.upkeep.extent_removal import ExtentRemoval
from bowstring.broker.upkeep.page_sealing import PageSealing
from bowstring.broker.upkeep.retention import Retention
from bowstring.broker.upkeep.sealer import Sealer
from bowstring.broker.upkeep.switch import Switch
from bowstring.broker.upkeep.usage import Usage
from bowstring.ports.failures import Damaged, DiskFull

ROWS_A_STEP = 100


class Upkeep:
    """The household of one incarnation."""

    def __init__(self, surroundings: Surroundings, log: Log, reading: Reading, usage: Usage, *, trimmed: int, deleted: list[int]) -> None:
        self._seconds = surroundings.settings.upkeep_seconds
        self._clock = surroundings.clock
        self._journal = log.journal
        self._store = surroundings.store
        self._reserve = surroundings.reserve
        self._counters = surroundings.counters
        self._observer = surroundings.observer
        self._witness = surroundings.witness
        self._log = log
        self._usage = usage
        self._deleted = dict.fromkeys(deleted)
        """Topics whose rows in the catalog are to be cleared away."""
        self.switch = switch = Switch(usage=usage, extents=reading.extents, counters=surroundings.counters, witness=surroundings.witness)
        pages = PageSealing(surroundings, log, reading, usage, switch)
        self.sealer = Sealer(surroundings, log, pages, trimmed=trimmed)
        removal = ExtentRemoval(journal=log.journal, extents=reading.extents, sealer=self.sealer, switch=switch)
        self.retention = Retention(surroundings, log, reading, removal)
        self.cleaner = Cleaner(surroundings, log, reading, usage, switch, self.sealer.has_trimmed)
        log.commits.told.append(self.sealer.note)
        switch.told.append(self.cleaner.sealed)
        self._task: asyncio.Task[None] | None = None
        self._troubles: dict[str, str] = {}
        """The problem of each kind of work, so that it is reported once."""

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
                await self._clock.sleep(0.0 if self.sealer.is_pressed else self._seconds)
                await self._turn()
        except asyncio.CancelledError:
            raise
        except Exception as failure:
            self._log.flusher.fail(failure)

    async def _turn(self) -> None:
        clock = self._clock
        self._witness.turn_began()
        for kind, work in self._works():
            name, counted, begun = work.__qualname__, self._counters.work(kind), clock.monotonic()
            try:
                await work()
                self._troubles.pop(name, None)
            except (DiskFull, Damaged) as failure:
                if self._troubles.get(name) != str(failure):
                    self._observer.note("upkeep-postponed", work=name, problem=str(failure))
                self._troubles[name] = str(failure)
                counted.troubles += 1
            counted.turns += 1
            counted.seconds += clock.monotonic() - begun
        self._witness.turn_ended()

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
        """Removes rows of deleted topics, some at a time, and frees what they use."""
        for topic in list(self._deleted):
            while await self._journal.forget_topic(topic, ROWS_A_STEP):
                pass
            sealed = await self._journal.usage()
            self._witness.cleared(self._usage.sealed(), sealed)
            self._usage.reset_sealed(sealed)
            del self._deleted[topic]

    async def _give_back(self) -> None:
        """Segments that nothing uses any more are used again, and if the disk was full, there may
        be room now.
        """
        unused = self._usage.unused(self._store.segments())
        if unused:
            self._witness.released(unused)
            await self._log.check_fence()  # a successor may use what we take to be free
            await self._store.release(unused)
            self._counters.released += len(unused)
        await self._store.make_room()
        if self._reserve is not None:
            await self._reserve.hold()
        self._log.room.look()
