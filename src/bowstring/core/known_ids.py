"""The sealed ids of one partition, as they are kept in memory: the filters of its sections, behind
few sieves.

A sieve stands for the sections that were added while it had room. The next one is four times as large, up to `CAPACITY_MAX`, so ten
million ids are asked for at three sieves. What is dropped stays in its sieve, where it lets a stranger more pass, until all the
sections of that sieve are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bowstring.core.id_sections import Blocks, Filter
from bowstring.core.sieve import Asked, Hashes, Sieve

Name = TypeVar("Name", bound=Hashable)
"""The name of a section: the place of its directory."""

CAPACITY_MIN = 1 << 9
CAPACITY_MAX = 1 << 22
GROWTH = 4
BITS_AN_ENTRY = 10


class KnownSection(NamedTuple):
    """A section, but for the offsets."""

    filter: Filter
    blocks: Blocks


Match = tuple[Name, KnownSection, NDArray[np.int64], NDArray[np.int64]]
"""A section, rows that it may have, and the place of each in it."""


class Group(Generic[Name]):
    """Sections behind one sieve."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.sieve = Sieve(capacity, BITS_AN_ENTRY)
        self.sections: dict[Name, KnownSection] = {}

    @property
    def bytes(self) -> int:
        return self.sieve.nbytes + sum(section.filter.bytes for section in self.sections.values())


class KnownIds(Generic[Name]):
    """Sections by their names."""

    def __init__(self) -> None:
        self._groups: list[Group[Name]] = []

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self._groups)

    def get(self, section: Name) -> KnownSection | None:
        return next((found for group in self._groups if (found := group.sections.get(section)) is not None), None)

    def room_for(self, count: int) -> Group[Name]:
        """The group that a section with so many entries goes to. Its hashes are to be added to the
        sieve, and then `add` is called: making a section known takes a while, and others may come
        and go meanwhile.
        """
        last = self._groups[-1] if self._groups else None
        if last is None or last.count + count > last.capacity:
            wanted = GROWTH * max(last.capacity if last is not None else 0, count)
            last = Group[Name](max(min(wanted, CAPACITY_MAX), CAPACITY_MIN, count))
            self._groups.append(last)
        last.count += count
        return last

    def add(self, group: Group[Name], section: Name, known: KnownSection) -> None:
        """All its hashes are in the group's sieve."""
        if self.get(section) is None:
            group.sections[section] = known
            if group not in self._groups:
                self._groups.append(group)

    def keep_only(self, sections: Collection[Name]) -> None:
        """Drops the others."""
        for group in self._groups:
            group.sections = {section: known for section, known in group.sections.items() if section in sections}
        self._groups = [group for group in self._groups if group.sections]

    def find(self, hashes: Hashes, sections: Collection[Name]) -> Iterator[Match[Name]]:
        """Where these hashes may be, among those of the sections that are known."""
        asked = Asked.of(hashes)
        for group in self._groups:
            wanted = [(section, known) for section, known in group.sections.items() if section in sections]
            passing = group.sieve.passing(asked) if wanted else np.empty(0, np.int64)
            if not len(passing):
                continue
            for section, known in wanted:
                rows, places = known.filter.find(hashes[passing])
                if len(rows):
                    yield section, known, passing[rows], places
