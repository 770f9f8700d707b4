"""Due times at rest, against a sorted list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.core import due_blocks, sections
from bowstring.core.due_blocks import (
    NO_DUES,
    DueDirectory,
    Dues,
    blocks_of,
    decode_due_block,
    decode_due_directory,
    dues_of,
    encode_due_block,
    encode_due_directory,
    joined,
)
from bowstring.core.id_sections import BlockPlace
from bowstring.core.sections import SectionHeader

MOMENTS = st.lists(st.integers(0, 40), max_size=60)
MOMENT = st.integers(0, 45)


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """Blocks of four, so that there are several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_blocks, "DUE_BLOCK_ENTRIES", 4)
        yield


def made(moments: list[int], first: int = 100) -> Dues:
    return dues_of(np.array(moments, np.int64), np.arange(first, first + len(moments), dtype=np.int64))


def listed(moments: list[int], first: int = 100) -> list[tuple[int, int]]:
    return sorted((moment, first + at) for at, moment in enumerate(moments) if moment)


def pairs(dues: Dues) -> list[tuple[int, int]]:
    return list(zip(dues.moments.tolist(), dues.offsets.tolist(), strict=True))


def stored(dues: Dues, first: int = 100) -> tuple[DueDirectory, list[Dues]]:
    """Through their bytes."""
    blocks = blocks_of(dues)
    places = [BlockPlace(7, 64 * number, 64) for number in range(len(blocks))]

    def header(kind: str, count: int) -> SectionHeader:
        return SectionHeader(kind, sections.VERSION, 1, 0, first, first + 100, count)

    encoded = [(header("due-block", len(block.moments)), encode_due_block(block, first)) for block in blocks]
    directory = decode_due_directory(header("due", len(dues.moments)), memoryview(encode_due_directory(blocks, places)))
    assert directory.places == places
    return directory, [decode_due_block(of, memoryview(data)) for of, data in encoded]


@given(MOMENTS, MOMENT)
def test_rows_from_a_horizon_on_are_those_of_the_list(moments: list[int], horizon: int):
    wanted = [pair for pair in listed(moments) if pair[0] >= horizon]
    assert pairs(made(moments).from_horizon(horizon)) == wanted
    if any(moments):
        directory, blocks = stored(made(moments))
        found = [pair for number in directory.from_horizon(horizon) for pair in pairs(blocks[number].from_horizon(horizon))]
        assert found == wanted
        assert (directory.earliest, directory.latest) == (listed(moments)[0][0], listed(moments)[-1][0])


@given(MOMENTS, MOMENT, MOMENT)
def test_rows_that_are_released_between_two_horizons_are_those_of_the_list(moments: list[int], since: int, horizon: int):
    wanted = [pair for pair in listed(moments) if since <= pair[0] < horizon]
    assert pairs(made(moments).released_before(since, horizon)) == wanted
    if any(moments):
        directory, blocks = stored(made(moments))
        numbers = directory.released_before(since, horizon)
        assert [pair for number in numbers for pair in pairs(blocks[number].released_before(since, horizon))] == wanted


@given(st.lists(MOMENTS, max_size=5))
def test_several_that_are_joined_are_one_sorted_list(parts: list[list[int]]):
    starts = np.cumsum([100, *(len(part) for part in parts)]).tolist()
    dues = joined([made(part, first) for part, first in zip(parts, starts, strict=False)])
    assert pairs(dues) == sorted(pair for part, first in zip(parts, starts, strict=False) for pair in listed(part, first))
    assert pairs(joined(blocks_of(dues))) == pairs(dues)


def test_few_blocks_are_read_for_a_short_span():
    directory, _ = stored(made(list(range(1, 81))))
    assert len(directory.firsts) == 20
    assert directory.released_before(41, 45) == range(9, 11)
    assert directory.from_horizon(79) == range(19, 20)
    assert not directory.from_horizon(81)


def test_a_section_of_another_size_is_refused():
    header = SectionHeader("due", sections.VERSION, 1, 0, 1, 9, 5)
    with pytest.raises(sections.Unreadable):
        decode_due_directory(header, memoryview(bytes(24)))
    with pytest.raises(sections.Unreadable):
        decode_due_block(header, memoryview(bytes(24)))
    assert NO_DUES.earliest is None
