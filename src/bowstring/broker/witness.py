"""The port for watching a broker from outside: the simulation uses it to check the broker and to
know which rare states it reached.

The broker tells its witness what happens at the moment it happens, on its own loop, and nothing
depends on the answer. A witness must not change anything and must not take long. Everything here
does nothing, so a witness overrides only the methods that it wants. The events that operators read
are another port (`ports.events.Observer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bowstring.broker.log.flusher import Flush
from bowstring.broker.reading.fetched import Fetched
from bowstring.core.decisions import Found
from bowstring.core.pages import PageEntry
from bowstring.core.partition import Partition
from bowstring.messages.filters import Filter
from bowstring.ports.extents import Extent


class Witness:
    """One for all incarnations of a broker."""

    def began(self, incarnation: object) -> None:
        """An `Incarnation` was loaded and serves from here on."""

    # The log

    def landed(self, flush: Flush) -> None:
        """A flush is in the catalog. No part of the broker knows yet."""

    def committed(self, flush: Flush) -> None:
        """Every part of the broker knows of a flush. Its answers go out next."""

    def looked_up(self, partition: Partition, found: Found) -> None:
        """Ids and batches were compared with stored ones."""

    # Reading

    def read(self, partition: Partition, entries: Sequence[PageEntry], moves: int) -> None:
        """Pages were read. The partition had made so many `moves` before."""

    def cut(self, partition: Partition, first: int, end: int, visible: int) -> None:
        """Of the rows in [first, end) of one page so many may be delivered."""

    def fetched(self, topic: str, where: Filter | None, pieces: Sequence[Fetched]) -> None:
        """A reader, perhaps with a filter, is given this."""

    # Upkeep

    def turn_began(self) -> None:
        """A turn of upkeep begins."""

    def turn_ended(self) -> None:
        """A turn of upkeep has ended."""

    def seal_began(self) -> None:
        """The sealer begins to seal committed changes."""

    def seal_ended(self, *, whole: bool) -> None:
        """The seal is done, or has been given up because the disk is full or something could not be
        read.
        """

    def page_cut(self) -> None:
        """A page was cut at a seal, because some of its rows are due after the others are gone."""

    def captured(self) -> None:
        """The state of some partitions is in the catalog."""

    def replaced(self, old: Sequence[Extent], new: Extent | None) -> None:
        """Extents of a partition were rewritten as one, or dropped."""

    def cleared(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        """Rows of a deleted topic are gone. Extents used so many bytes of each segment, and use so
        many now.
        """

    def released(self, segments: Sequence[int]) -> None:
        """These segments are about to be given back to the store."""


UNWITNESSED: Final = Witness()
