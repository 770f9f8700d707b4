"""What edits should leave behind, in a few lines: dictionaries. And edits to try, drawn from a seed.

`read` gives the same out of a catalog, by all the ways that lead to a row, and looks whether these agree.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from bowstring.ports.catalog import Catalog, Chunk, Edit, Extent, ExtentKey, Sealed, Snapshot
from bowstring.ports.store import Reference

SEGMENTS = [1 << 24 | n for n in range(1, 8)]


@dataclass(frozen=True)
class Kept:
    """Everything that edits keep."""

    extents: dict[ExtentKey, Extent] = field(default_factory=dict)
    snapshots: dict[tuple[int, int], Snapshot] = field(default_factory=dict)
    chunks: dict[tuple[int, int, int], Chunk] = field(default_factory=dict)
    trimmed: int = 0

    def edited(self, edit: Edit, last: int) -> Kept:
        """What a good edit makes of it, in a journal that ends at `last`."""
        extents = {key: extent for key, extent in self.extents.items() if key not in edit.drop}
        return Kept(
            extents | {key_of(extent): extent for extent in edit.add},
            self.snapshots | {snapshot[:2]: snapshot for snapshot in edit.snapshots},
            {key: chunk for key, chunk in (self.chunks | {chunk[:3]: chunk for chunk in edit.chunks}).items() if chunk.bitmaps},
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
        return [
            Sealed(*at, max(extent.end_offset for extent in inside[at]), sum(extent.bytes for extent in inside[at])) for at in partitions
        ]

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
            snapshots=[Snapshot(*at, last, draw.randbytes(draw.choice((0, 200, 4_000)))) for at in where],
            chunks=[Chunk(*at, draw.randrange(3), draw.randbytes(draw.choice((0, 300, 9_000)))) for at in where],
            trim=draw.choice((0, self.trimmed, self.trimmed + 3, last)),
        )


async def read(catalog: Catalog, trimmed: int) -> Kept:
    """What the catalog keeps, asked for in all ways. `trimmed` is what `register` said."""
    extents: list[Extent] = []
    for sealed in await catalog.sealed():
        offset = 0
        while found := await catalog.extents(sealed.topic, sealed.partition, offset, 3):
            extents += found
            offset = found[-1].end_offset
    kept = Kept(
        {key_of(extent): extent for extent in extents},
        {snapshot[:2]: snapshot for snapshot in await catalog.snapshots()},
        {chunk[:3]: chunk for chunk in await catalog.chunks()},
        trimmed,
    )
    assert await catalog.sealed() == kept.sealed()
    assert await catalog.usage() == kept.usage()
    for segment in kept.usage():
        expected = sorted(extent for extent in extents if segment in dict(extent.uses))
        found, after = [], None
        while more := await catalog.extents_in(segment, after, 2):
            found += more
            after = key_of(more[-1])
        assert found == expected
    return kept


def key_of(extent: Extent) -> ExtentKey:
    return ExtentKey(extent.topic, extent.partition, extent.first_offset)


def draw_uses(draw: random.Random) -> tuple[tuple[int, int], ...]:
    return tuple((segment, draw.randrange(64, 1 << 28)) for segment in draw.sample(SEGMENTS, draw.randrange(1, 4)))


def extent(
    topic: int, partition: int, first: int, end: int, uses: tuple[tuple[int, int], ...] = ((SEGMENTS[0], 500),), *, ids: bool = True
) -> Extent:
    """An extent with these offsets; the rest follows from them."""
    segment = uses[0][0]
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
        index=Reference(segment, 4_096, 700, 9),
        ids=Reference(segment, 8_192, 300, 9) if ids else None,
        uses=uses,
    )
