"""What edits should leave behind, in a few lines: dictionaries. And edits to try, drawn from a seed.

`read` gives the same out of a catalog, by all the ways that lead to a row, and looks whether these agree.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from bowstring.ports.extents import Extent, ExtentKey, Sealed, Section, StateRow
from bowstring.ports.journal import Edit, Journal
from bowstring.ports.store import Reference

SEGMENTS = [1 << 24 | n for n in range(1, 8)]


@dataclass(frozen=True)
class Kept:
    """Everything that edits keep."""

    extents: dict[ExtentKey, Extent] = field(default_factory=dict)
    states: dict[tuple[int, int, str, int], StateRow] = field(default_factory=dict)
    trimmed: int = 0

    def edited(self, edit: Edit, last: int) -> Kept:
        """What a good edit makes of it, in a journal that ends at `last`."""
        extents = {key: extent for key, extent in self.extents.items() if key not in edit.drop}
        return Kept(
            extents | {key_of(extent): extent for extent in edit.add},
            {key: row for key, row in (self.states | {row[:4]: row for row in edit.states}).items() if row.state},
            max(self.trimmed, min(edit.trim, last - 1)),
        )

    def usage(self) -> dict[int, int]:
        used: Counter[int] = Counter()
        for extent in self.extents.values():
            used.update(dict(extent.uses))
        return dict(used)

    def sealed(self) -> list[Sealed]:
        partitions = sorted({key[:2] for key in self.extents})
        inside = {at: [extent for key, extent in self.extents.items() if key[:2] == at] for at in partitions}
        return [_sum(*at, inside[at]) for at in partitions]

    def draw_edit(self, draw: random.Random, last: int) -> Edit:
        """A good edit: some extents go, some come behind the last of their partition, or in the place of one that goes."""
        drop = draw.sample(sorted(self.extents), min(len(self.extents), draw.randrange(3)))
        add = [self.extents[key]._replace(uses=draw_uses(draw)) for key in drop if draw.random() < 0.4]
        topic, partition = draw.randrange(1, 4), draw.randrange(3)
        end = max((extent.end_offset for key, extent in self.extents.items() if key[:2] == (topic, partition)), default=1)
        for _ in range(draw.randrange(4)):
            first = end + draw.randrange(3)
            end = first + draw.randrange(1, 2_000)
            add.append(extent(topic, partition, first, end, draw_uses(draw), ids=draw.random() < 0.5))
        where = [(draw.randrange(1, 4), number) for number in range(draw.randrange(3))]
        return Edit(
            add=add,
            drop=drop,
            states=[
                state(*at, last, draw.randbytes(draw.choice((0, 200, 9_000))), machine=draw.choice(("a", "b")), part=draw.randrange(3))
                for at in where
            ],
            trim=draw.choice((0, self.trimmed, self.trimmed + 3, last)),
        )


def _sum(topic: int, partition: int, extents: list[Extent]) -> Sealed:
    return Sealed(
        topic,
        partition,
        max(extent.end_offset for extent in extents),
        sum(extent.bytes for extent in extents),
        min(extent.first_offset for extent in extents),
        min(extent.arrived_first for extent in extents),
        min((extent.expires for extent in extents if extent.expires), default=0),
    )


async def read(journal: Journal, trimmed: int) -> Kept:
    """What the catalog keeps of a broker, asked for in all ways. `trimmed` is what `register` said."""
    extents: list[Extent] = []
    for sealed in await journal.sealed():
        offset = 0
        while found := await journal.extents(sealed.topic, sealed.partition, offset, 3):
            extents += found
            offset = found[-1].end_offset
    kept = Kept(
        {key_of(extent): extent for extent in extents},
        {row[:4]: row for row in await journal.states()},
        trimmed,
    )
    assert await journal.sealed() == kept.sealed()
    assert await journal.usage() == kept.usage()
    for segment in kept.usage():
        expected = sorted(extent for extent in extents if segment in dict(extent.uses))
        found, after = [], None
        while more := await journal.extents_in(segment, after, 2):
            found += more
            after = key_of(more[-1])
        assert found == expected
    return kept


def key_of(extent: Extent) -> ExtentKey:
    return ExtentKey(extent.topic, extent.partition, extent.first_offset)


def draw_uses(draw: random.Random) -> tuple[tuple[int, int], ...]:
    return tuple((segment, draw.randrange(64, 1 << 28)) for segment in draw.sample(SEGMENTS, draw.randrange(1, 4)))


def extent(
    topic: int,
    partition: int,
    first: int,
    end: int,
    uses: tuple[tuple[int, int], ...] = ((SEGMENTS[0], 500),),
    *,
    ids: bool = True,
    broker: int = 1,
) -> Extent:
    """An extent with these offsets; the rest follows from them."""
    segment = uses[0][0]
    index = Section("index", Reference(segment, 4_096, 700, 9))
    return Extent(
        topic=topic,
        partition=partition,
        first_offset=first,
        end_offset=end,
        arrived_first=1_700_000_000_000_000 + first,
        arrived_last=1_700_000_000_000_000 + end,
        expires=first % 2 * 1_800_000_000_000_000,
        pages=end - first,
        bytes=(end - first) * 100,
        broker=broker,
        sections=tuple(section for section in (index, Section("ids", Reference(segment, 8_192, 300, 9))) if ids or section is index),
        uses=uses,
    )


def state(topic: int, partition: int, sequence: int, content: bytes, *, machine: str = "a", part: int = 0, broker: int = 1) -> StateRow:
    """A state as of a flush."""
    return StateRow(topic, partition, machine, part, broker, sequence, content)
