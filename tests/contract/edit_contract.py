"""What every catalog holds about extents and states, and about the journal being trimmed. `CatalogContract` tells the rest.

An edit is one transaction: all of it or nothing, and nothing of an old epoch. What it stored is checked when it is read, and what was
damaged is named. Sums (what a segment holds, what a partition amounts to) follow every edit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import pytest

from bowstring.ports.catalog import Catalog, Fence, Registered
from bowstring.ports.extents import ExtentKey, Sealed, Section
from bowstring.ports.failures import Damaged, Fenced
from bowstring.ports.journal import Edit, Row
from tests.contract.catalog_contract import BROKER, PAGES, Place, commit, make_topics, reading, references_of, started, topic
from tests.contract.edit_model import SEGMENTS, Kept, extent, key_of, read, state

FIRST, SECOND, THIRD = SEGMENTS[:3]
KEPT = Edit(
    add=[
        extent(1, 0, 1, 101, ((FIRST, 700), (SECOND, 300))),
        extent(1, 0, 101, 201, ((SECOND, 50),), ids=False),
        extent(1, 0, 301, 401, ((FIRST, 9),)),
        extent(1, 2, 1, 11, ((FIRST, 1),)),
        extent(7, 0, 5, 6, ((FIRST, 2), (THIRD, 4))),
    ],
    states=[
        *(state(1, 0, 3, b"head"), state(1, 0, 3, b"chunk", part=1), state(1, 0, 2, b"x" * 10_000, part=6)),
        *(state(1, 0, 3, b"of another machine", machine="b"), state(7, 0, 2, b"others")),
    ],
)
EXTENT_COLUMNS = "end_offset bytes total arrived_first arrived_last expires pages broker sections uses crc".split()
BAD_EDITS = {
    "a drop of what is not there": Edit(drop=[ExtentKey(1, 0, 2)]),
    "a drop of one twice": Edit(drop=[ExtentKey(1, 0, 1), ExtentKey(1, 0, 1)]),
    "an extent that is there": Edit(add=[KEPT.add[0]]),
    "one inside another": Edit(add=[extent(1, 0, 50, 60)]),
    "one around another": Edit(add=[extent(1, 2, 0, 50)]),
    "one that ends inside another": Edit(add=[extent(1, 0, 250, 302)]),
    "one that begins inside another": Edit(add=[extent(1, 0, 400, 500)]),
    "one over a gap and more": Edit(add=[extent(1, 0, 150, 350)]),
    "two that overlap each other": Edit(add=[extent(2, 0, 1, 20), extent(2, 0, 19, 30)]),
    "one in the place of one that stays": Edit(drop=[ExtentKey(1, 0, 1)], add=[extent(1, 0, 1, 102)]),
    "one without offsets": Edit(add=[extent(2, 0, 10, 10)]),
    "one with a segment twice": Edit(add=[extent(2, 0, 10, 11, ((FIRST, 1), (FIRST, 2)))]),
    "one without an index": Edit(add=[extent(2, 0, 10, 11)._replace(sections=())]),
    "one with a section twice": Edit(add=[extent(2, 0, 10, 11)._replace(sections=extent(2, 0, 10, 11).sections * 2)]),
    "a head that is older": Edit(states=[state(1, 0, 2, b"older")]),
    "a chunk that is older": Edit(states=[state(1, 0, 2, b"older", part=1)]),
    "the removal of a state as of an older flush": Edit(states=[state(1, 0, 2, b"", part=1)]),
}


async def filled(place: Place, flushes: int = 5) -> tuple[Catalog, Fence]:
    """A catalog with some journal rows, and what KEPT stores."""
    catalog, fence = await started(place)
    await make_topics(catalog, fence)
    for sequence in range(1, flushes + 1):
        await commit(catalog, fence, sequence, b"%d" % sequence, PAGES[:1])
    await catalog.journal(fence).edit(KEPT)
    return catalog, fence


class EditContract:
    """Subclasses give the fixture `place`."""

    # ---- edits -------------------------------------------------------------------------------------------------------

    async def test_a_new_catalog_keeps_nothing(self, place: Place):
        catalog, fence = await started(place)
        assert await read(reading(catalog), 0) == Kept()
        await catalog.journal(fence).edit(Edit())
        await catalog.journal(fence).edit(Edit(trim=10))
        assert await reading(catalog).extents(1, 0, 0, 10) == []
        assert await reading(catalog).extents_in(FIRST, None, 10) == []

    async def test_what_an_edit_stored_is_there_after_reopening(self, place: Place):
        catalog, _ = await filled(place)
        expected = Kept().edited(KEPT, 5)
        assert await read(reading(catalog), 0) == expected
        assert await reading(catalog).usage() == {FIRST: 712, SECOND: 350, THIRD: 4}
        arrived, expires = 1_700_000_000_000_000, 1_800_000_000_000_000
        assert await reading(catalog).sealed() == [
            Sealed(1, 0, 401, 30_000, 1, arrived + 1, expires),
            Sealed(1, 2, 11, 1_000, 1, arrived + 1, expires),
            Sealed(7, 0, 6, 100, 5, arrived + 5, expires),
        ]
        assert await read(reading(await place.again()), 0) == expected

    async def test_extents_are_those_that_end_after_an_offset(self, place: Place):
        catalog, _ = await filled(place)
        firsts = {
            offset: [found.first_offset for found in await reading(catalog).extents(1, 0, offset, 9)]
            for offset in (0, 1, 100, 101, 200, 201, 300, 401)
        }
        assert firsts == {
            **{0: [1, 101, 301], 1: [1, 101, 301], 100: [1, 101, 301], 101: [101, 301]},
            **{200: [101, 301], 201: [301], 300: [301], 401: []},
        }
        assert [found.first_offset for found in await reading(catalog).extents(1, 0, 50, 2)] == [1, 101]
        assert [found.first_offset for found in await reading(catalog).extents(1, 0, 201, 1)] == [301]
        assert await reading(catalog).extents(1, 1, 0, 9) == []

    async def test_extents_in_a_segment_come_in_order_behind_a_key(self, place: Place):
        catalog, _ = await filled(place)
        keys = [ExtentKey(1, 0, 1), ExtentKey(1, 0, 301), ExtentKey(1, 2, 1), ExtentKey(7, 0, 5)]
        assert [key_of(found) for found in await reading(catalog).extents_in(FIRST, None, 10)] == keys
        for n, key in enumerate(keys):
            assert [key_of(found) for found in await reading(catalog).extents_in(FIRST, key, 2)] == keys[n + 1 : n + 3]
        assert [key_of(found) for found in await reading(catalog).extents_in(FIRST, ExtentKey(1, 1, 0), 10)] == keys[2:]
        assert await reading(catalog).extents_in(SEGMENTS[5], None, 10) == []

    async def test_a_copy_takes_the_place_of_what_it_copied(self, place: Place):
        catalog, fence = await filled(place)
        joined = extent(1, 0, 1, 201, ((THIRD, 1_000),))
        await catalog.journal(fence).edit(Edit(add=[joined], drop=[ExtentKey(1, 0, 1), ExtentKey(1, 0, 101)]))
        assert await reading(catalog).extents(1, 0, 0, 2) == [joined, KEPT.add[2]]
        assert await reading(catalog).usage() == {FIRST: 12, THIRD: 1_004}
        assert await reading(catalog).extents_in(SECOND, None, 10) == []

    async def test_extents_may_touch_and_leave_gaps(self, place: Place):
        catalog, fence = await filled(place)
        await catalog.journal(fence).edit(
            Edit(add=[extent(1, 0, 201, 250), extent(1, 0, 260, 301), extent(1, 0, 401, 402), extent(1, 1, 1, 1_000)])
        )
        assert [found.first_offset for found in await reading(catalog).extents(1, 0, 0, 9)] == [1, 101, 201, 260, 301, 401]

    @pytest.mark.parametrize("bad", BAD_EDITS)
    async def test_an_edit_with_something_wrong_changes_nothing_at_all(self, place: Place, bad: str):
        catalog, fence = await filled(place)
        wrong = BAD_EDITS[bad]
        edit = Edit(
            add=[extent(3, 0, 1, 2), *wrong.add],
            drop=[ExtentKey(1, 2, 1), *wrong.drop] if bad != "one around another" else wrong.drop,
            states=[state(3, 0, 5, b"new"), state(1, 0, 5, b"", part=6), *wrong.states],
            trim=3,
        )
        with pytest.raises(Damaged):
            await catalog.journal(fence).edit(edit)
        expected = Kept().edited(KEPT, 5)
        assert await read(reading(catalog), 0) == expected
        await commit(catalog, fence, 6, b"goes on", [])
        await catalog.journal(fence).edit(Edit(add=[extent(3, 0, 1, 2)]))
        catalog = await place.again()
        registered = await catalog.register(BROKER)
        assert registered == Registered(Fence(BROKER, 2), 6, 0)
        assert await read(reading(catalog), registered.trimmed) == expected.edited(Edit(add=[extent(3, 0, 1, 2)]), 6)

    async def test_a_newer_state_replaces_one_of_the_same_sequence_too_and_an_empty_one_removes(self, place: Place):
        catalog, fence = await filled(place)
        newer = [state(1, 0, 4, b"newer"), state(1, 0, 3, b"same", part=1), state(1, 1, 1, b"first")]
        gone = [state(1, 0, 2, b"", part=6), state(1, 0, 1, b"", part=7), state(7, 0, 3, b"")]
        await catalog.journal(fence).edit(Edit(states=[*newer, *gone]))
        expected = [newer[0], newer[1], KEPT.states[3], newer[2]]
        assert await reading(catalog).states() == expected
        assert await reading(await place.again()).states() == expected

    async def test_sections_of_any_kind_come_back(self, place: Place):
        catalog, fence = await filled(place)
        sections = tuple(Section(kind, extent(1, 1, 1, 2).index._replace(position=n)) for n, kind in enumerate(("due", "index", "proof")))
        added = extent(1, 1, 1, 2)._replace(sections=sections)
        await catalog.journal(fence).edit(Edit(add=[added]))
        assert await reading(await place.again()).extents(1, 1, 0, 9) == [added]
        assert (added.index, added.ids, added.section("due")) == (sections[1].reference, None, sections[0].reference)

    @pytest.mark.parametrize("seed", range(4))
    async def test_whatever_edits_come_all_that_is_read_follows_them(self, place: Place, seed: int):
        draw, kept = random.Random(seed), Kept()
        catalog, fence = await started(place)
        await make_topics(catalog, fence)
        for sequence in range(1, 41):
            await commit(catalog, fence, sequence, b"%d" % sequence, PAGES[: sequence % 2])
            edit = kept.draw_edit(draw, sequence)
            await catalog.journal(fence).edit(edit)
            kept = kept.edited(edit, sequence)
            if sequence % 5 == 0:
                catalog = await place.again()
                registered = await catalog.register(BROKER)
                fence = registered.fence
                assert await read(reading(catalog), registered.trimmed) == kept
                assert [row.sequence for row in await reading(catalog).rows(kept.trimmed, 99)] == list(
                    range(kept.trimmed + 1, sequence + 1)
                )

    # ---- fences ------------------------------------------------------------------------------------------------------

    async def test_an_old_epoch_edits_alters_and_forgets_nothing(self, place: Place):
        catalog, old = await filled(place)
        made = await catalog.create_topic(old, topic("orders"))
        topics = await catalog.topics()
        await catalog.register(BROKER)
        for edit in (
            Edit(),
            Edit(drop=[ExtentKey(1, 0, 1)]),
            Edit(drop=[ExtentKey(1, 0, 2)]),
            Edit(trim=2),
            Edit(states=[state(1, 0, 5, b"")]),
        ):
            with pytest.raises(Fenced):
                await catalog.journal(old).edit(edit)
        with pytest.raises(Fenced):
            await catalog.alter_topic(old, made.id, b"other settings")
        with pytest.raises(Fenced):
            await catalog.journal(old).forget_topic(7, 100)
        assert await read(reading(catalog), 0) == Kept().edited(KEPT, 5)
        assert len(await reading(catalog).rows(0, 100)) == 5
        assert await catalog.topics() == topics

    @pytest.mark.parametrize("edit_first", [True, False])
    async def test_an_edit_handed_over_with_a_registration_lands_before_it_or_never(self, place: Place, edit_first: bool):
        old, new = await place.open(), await place.beside()
        await make_topics(old, (await old.register(BROKER)).fence)
        expected = 0
        for first in range(1, 41):
            fence = (await old.register(BROKER)).fence
            edit, register = old.journal(fence).edit(Edit(add=[extent(1, 0, first, first + 1)])), new.register(BROKER)
            calls: list[Awaitable[object]] = [edit, register] if edit_first else [register, edit]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            edited, registered = answers if edit_first else reversed(answers)
            assert isinstance(registered, Registered)
            assert edited is None or isinstance(edited, Fenced)
            expected += edited is None
            assert len(await reading(new).extents(1, 0, 0, 100)) == expected
            with pytest.raises(Fenced):
                await old.journal(fence).edit(Edit(add=[extent(2, 0, first, first + 1)]))
        assert len(await reading(new).sealed()) == (expected > 0)

    # ---- trimming ----------------------------------------------------------------------------------------------------

    async def test_trimmed_rows_are_gone_and_the_others_are_read_behind_them(self, place: Place):
        catalog, fence = await filled(place, 9)
        await catalog.journal(fence).edit(Edit(trim=4))
        await catalog.journal(fence).edit(Edit(trim=2))
        for again in (False, True):
            catalog = await place.again() if again else catalog
            assert (await catalog.register(BROKER))[1:] == (9, 4)
            assert [row.sequence for row in await reading(catalog).rows(4, 100)] == [5, 6, 7, 8, 9]
            with pytest.raises(Damaged, match=r"\b1\b"):
                await reading(catalog).rows(0, 100)
            with pytest.raises(Damaged):
                await reading(catalog).read(references_of(4, PAGES[:1]))
            assert len(await reading(catalog).read(references_of(5, PAGES[:1]))) == 1

    @pytest.mark.parametrize("trim", [5, 6, 1 << 60])
    async def test_the_last_row_is_never_trimmed(self, place: Place, trim: int):
        catalog, fence = await filled(place)
        for _ in range(2):
            await catalog.journal(fence).edit(Edit(trim=trim))
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 2), 5, 4)
        catalog = await place.again()
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 3), 5, 4)
        fence = Fence(BROKER, 3)
        with pytest.raises(Fenced):
            await commit(catalog, fence, 1, b"from the beginning", [])
        await commit(catalog, fence, 6, b"6", [])
        assert await reading(catalog).rows(4, 9) == [Row(5, 1, b"5"), Row(6, 3, b"6")]

    # ---- damage ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("column", EXTENT_COLUMNS)
    @pytest.mark.parametrize("key", [ExtentKey(1, 0, 1), ExtentKey(1, 0, 101)], ids=["with ids", "without"])
    async def test_a_damaged_extent_is_named_and_its_neighbours_can_be_read(self, place: Place, key: ExtentKey, column: str):
        await filled(place)
        await place.flip_a_bit("extent", key._asdict(), column)
        catalog = await place.again()
        named = rf"offset {key.first_offset} of topic 1, partition 0\b"
        with pytest.raises(Damaged, match=named):
            await reading(catalog).extents(1, 0, 0, 10)
        with pytest.raises(Damaged, match=named):
            await reading(catalog).extents(1, 0, 100 if key.first_offset == 1 else 200, 10)
        with pytest.raises(Damaged, match=named):
            await reading(catalog).extents_in(SECOND, None, 10)
        assert [found.first_offset for found in await reading(catalog).extents(1, 0, 301, 10)] == [301]
        if column in ("end_offset", "bytes", "total"):
            with pytest.raises(Damaged, match=named):
                await reading(catalog).sealed()

    @pytest.mark.parametrize("column", ["topic", "partition", "first_offset"])
    async def test_an_extent_with_another_key_than_it_was_stored_under_is_damage(self, place: Place, column: str):
        await filled(place)
        await place.flip_a_bit("extent", ExtentKey(7, 0, 5)._asdict(), column)
        found = ExtentKey(7, 0, 5)._replace(**{column: getattr(ExtentKey(7, 0, 5), column) ^ 1})
        catalog = await place.again()
        for sums in (reading(catalog).sealed(), reading(catalog).extents(found.topic, found.partition, 0, 10)):
            with pytest.raises(Damaged, match=f"offset {found.first_offset} of topic {found.topic}, partition {found.partition}"):
                await sums
        with pytest.raises(Damaged, match="offset 5 of topic 7, partition 0"):
            await reading(catalog).extents_in(THIRD, None, 10)

    @pytest.mark.parametrize("column", ["segment", "topic", "partition", "first_offset", "bytes", "total"])
    async def test_a_segment_is_not_thought_to_be_free_because_a_number_has_changed(self, place: Place, column: str):
        await filled(place)
        await place.flip_a_bit("segment_use", {"segment": THIRD, **ExtentKey(7, 0, 5)._asdict()}, column)
        with pytest.raises(Damaged, match=r"of topic [67], partition"):
            await reading(await place.again()).usage()

    @pytest.mark.parametrize("column", ["topic", "partition", "machine", "part", "broker", "sequence", "crc", "state"])
    async def test_a_damaged_state_is_named(self, place: Place, column: str):
        await filled(place)
        await place.flip_a_bit("state", {"topic": 1, "partition": 0, "part": 6}, column)
        found = {"topic": 1, "partition": 0, "part": 6}
        found |= {column: found[column] ^ 1} if column in found else {}
        named = f"part {found['part']} of the state '.' of topic {found['topic']}, partition {found['partition']}"
        with pytest.raises(Damaged, match=named):
            await reading(await place.again()).states()

    async def test_a_damaged_extent_can_be_dropped_and_forgotten(self, place: Place):
        catalog, fence = await filled(place)
        await place.flip_a_bit("extent", ExtentKey(1, 0, 1)._asdict(), "uses")
        await place.flip_a_bit("extent", ExtentKey(7, 0, 5)._asdict(), "uses")
        catalog = await place.again()
        fence = (await catalog.register(BROKER)).fence
        await catalog.journal(fence).edit(Edit(drop=[ExtentKey(1, 0, 1)]))
        await catalog.delete_topic(fence, 7, 10)
        assert not await catalog.journal(fence).forget_topic(7, 100)
        assert await reading(catalog).usage() == {FIRST: 10, SECOND: 50}
        assert [found.first_offset for found in await reading(catalog).extents(1, 0, 0, 10)] == [101, 301]
