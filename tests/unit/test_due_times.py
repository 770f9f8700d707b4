"""The due times of an extent are read piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bowstring.broker.reading import due_times
from bowstring.broker.reading.due_times import DueTimes, Stretch
from bowstring.core.due_blocks import DueDirectory, Dues
from bowstring.core.id_sections import BlockPlace
from bowstring.core.machine import NEVER
from bowstring.core.partition import Partition
from bowstring.core.sections import DUE
from bowstring.ports.extents import Extent, Section
from bowstring.ports.failures import Damaged
from bowstring.ports.store import Reference

PARTITION = Partition(1, 0, 1)
EXTENT = Extent(1, 0, 1, 100, 0, 0, 0, 1, 1, 0, (Section(DUE, Reference(1, 0, 1, 1)),), ())


class Blocks:
    """Five blocks of ten rows, which are due at 1 to 50; some may be damaged."""

    def __init__(self, *damaged: int) -> None:
        self.damaged = damaged
        self.indices = 0
        """How often the index was asked."""

    async def due_directory(self, extent: Extent, reference: Reference) -> DueDirectory:
        return DueDirectory([1, 11, 21, 31, 41], 50, [BlockPlace(1, number, 1) for number in range(5)])

    async def due_block(self, extent: Extent, place: Reference) -> Dues:
        if place.position in self.damaged:
            raise Damaged("rotten")
        moments = np.arange(1, 11, dtype=np.int64) + 10 * place.position
        return Dues(moments, 100 - moments)

    async def index(self, extent: Extent) -> Blocks:
        self.indices += 1
        return self

    def state(self) -> list[Any]:
        return []


async def pieces(blocks: Blocks, since: int) -> list[list[int]]:
    extents: Any = blocks
    reader: Any = None
    found = DueTimes(extents=extents, reader=reader, bytes_max=1 << 20)
    return [piece.moments.tolist() async for piece in found.stored_pieces(PARTITION, Stretch(EXTENT), since, NEVER)]


@pytest.fixture(autouse=True)
def two_blocks_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_times, "BLOCKS_A_PIECE", 2)


async def test_each_piece_has_a_few_blocks():
    found = await pieces(Blocks(), 15)
    assert found == [list(range(15, 31)), list(range(31, 51))]
    assert await pieces(Blocks(), 51) == []


async def test_pages_are_asked_when_a_block_is_damaged():
    blocks = Blocks(3)
    assert await pieces(blocks, 0) == [list(range(1, 21)), []]
    assert blocks.indices == 1
