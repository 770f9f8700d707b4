"""What has to come back does come back: when no client is left, a broker holds no credit, and no
segment that nothing refers to.

A broker that leaks breaks no promise for a long time, and then all of them at once: clients cannot
publish any more, or the disk is full. So when the world has healed, and every client has closed,
the broker gets a bounded time (of the virtual clock) for its upkeep. The check reports everything
that it still holds without need. It looks from outside: it computes what lives from the topics,
their partitions and the extents in the catalog, not from the broker's own counts.

It compares those counts with what lives, too. A segment whose count is too high is held for ever,
but the cleaner leaves it alone meanwhile, so pages of other topics may live in it for long. Only
the count shows the leak then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bowstring.broker.incarnation import Incarnation as Epoch
from bowstring.catalog.sqlite.catalog import SqliteCatalog
from tests.history.checkers import everything_comes_back
from tests.history.violations import Violation
from tests.simulation.inspection import Inspection

if TYPE_CHECKING:
    from tests.simulation.server import Server

TURNS_MAX = 8
"""This many turns of upkeep must be enough: one turn clears a topic away, and releases its
segments.
"""


async def leftovers(server: Server) -> list[Violation]:
    """The resources that did not come back in time."""
    broken: list[Violation] = []
    for _ in range(TURNS_MAX):
        await asyncio.sleep(server.load.upkeep_seconds + server.world.options.sync_seconds * 10)
        epoch, catalog = server.watch.last, server.catalog
        if epoch is None or catalog is None or epoch.log.ended is not None or not server.alive:
            return []
        broken = everything_comes_back(_credit(epoch), _topics(epoch, server.watch.inspection, catalog), _counted(epoch))
        if not broken:
            server.world.sometimes("everything came back")
            return []
    return broken


def _credit(epoch: Epoch) -> list[tuple[str, int]]:
    """The resources that publishes hold, by kind."""
    credit = epoch.log.admission._credit
    return [
        ("bytes of credit", credit.reserved),
        ("publishes that wait for credit", len(credit._waiting)),
        ("batches without an answer", len(epoch.log.admission._outstanding)),
        ("calls that wait for a commit", len(epoch.log.admission._awaited)),
    ]


def _topics(epoch: Epoch, inspection: Inspection, catalog: SqliteCatalog) -> list[tuple[str, int]]:
    """The remains of deleted topics."""
    topics = {topic.row.id for topic in epoch.topics.all()}
    extents = inspection.extents(catalog)
    living = {segment for extent in extents if extent.topic in topics for segment, _ in extent.uses}
    living |= {segment for actor in epoch.topics.actors() for segment in actor.partition.pages.segments()}
    held = _not_in(living, epoch.surroundings.store.segments())
    return [
        ("extents of deleted topics", sum(extent.topic not in topics for extent in extents)),
        ("segments in which nothing lives", held),
    ]


def _counted(epoch: Epoch) -> list[tuple[str, int]]:
    """The bytes that the broker counts for pages of the journal, and that no partition has there."""
    living: Counter[int] = Counter()
    for actor in epoch.topics.actors():
        living.update(actor.partition.pages.segments())
    return [("bytes of pages that no partition has", (Counter(epoch.usage._recent) - living).total())]


def _not_in(living: set[int], segments: Iterable[int]) -> int:
    return sum(segment not in living for segment in segments)
