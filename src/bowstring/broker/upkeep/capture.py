"""The state of some partitions as of a flush, on its way into the catalog.

It is taken at a boundary between two flushes, and written when that flush is committed: turned into
bytes a few parts at a time, so that it holds nothing up, and in edits that flushes do not wait for
long. Heads come after chunks, those of ledgers before those of partitions. Until one is there, the
head before it counts and the journal has the rest. The rows of deleted subscriptions go last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bowstring.broker.upkeep.placement import PAUSE_SECONDS
from bowstring.core import snapshots
from bowstring.core.partition import Partition
from bowstring.core.snapshots import StatePart
from bowstring.ports.clock import Clock
from bowstring.ports.extents import StateRow
from bowstring.ports.journal import Edit, Journal

SLICE_BYTES = 256 * 1024
"""So much is serialised at a time, and written with one edit: one or two milliseconds each."""
ROWS_AN_EDIT = 64

Captured = tuple[Partition, StatePart]


class Capture:
    """Takes the state of partitions, and writes it."""

    def __init__(self, partitions: Sequence[Partition], broker: int) -> None:
        self._partitions = partitions
        self._broker = broker
        self._sequence = 0
        self._unwritten: list[Captured] = []

    def take(self, sequence: int) -> None:
        """At the boundary behind the flush of that sequence."""
        self._sequence = sequence
        self._unwritten = [(partition, part) for partition in self._partitions for part in snapshots.capture(partition)]

    async def write(self, journal: Journal, clock: Clock) -> None:
        """When that flush is committed. What could not be written comes with the next capture."""
        heads = sorted((one for one in self._unwritten if one[1].turn), key=lambda one: one[1].turn)
        chunks = [one for one in self._unwritten if not one[1].turn]
        try:
            for captured in self._order(chunks, heads):
                await self._write(captured, journal, clock)
        finally:
            for partition, part in self._unwritten:
                snapshots.put_back(partition, [part])
        for partition in self._partitions:
            partition.snapshot_sequence, partition.snapshot_end = self._sequence, partition.sealed_end

    def _order(self, chunks: list[Captured], heads: list[Captured]) -> Iterable[list[Captured]]:
        return chunks, heads

    async def _write(self, captured: list[Captured], journal: Journal, clock: Clock) -> None:
        rows: list[StateRow] = []
        size, done = 0, 0
        for at, (partition, part) in enumerate(captured, start=1):
            state = part.encode()
            rows.append(StateRow(partition.topic, partition.number, part.machine, part.number, self._broker, self._sequence, state))
            size += len(state)
            if size >= SLICE_BYTES or len(rows) >= ROWS_AN_EDIT or at == len(captured):
                await journal.edit(Edit(states=rows))
                written = {id(part) for _, part in captured[done:at]}
                self._unwritten = [one for one in self._unwritten if id(one[1]) not in written]
                rows, size, done = [], 0, at
                if at < len(captured):
                    await clock.sleep(PAUSE_SECONDS)
