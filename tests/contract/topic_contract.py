"""What every catalog holds about topics that are altered and topics that go.

A deleted topic is a tombstone for as long as something may still speak of it: journal rows, or what edits have stored.
"""

from __future__ import annotations

import pytest

from bowstring.errors import Conflict, TopicNotFound
from bowstring.ports.catalog import PartitionRow
from bowstring.ports.journal import Edit
from tests.contract.catalog_contract import BROKER, Place, commit, reading, started, topic
from tests.contract.edit_model import SEGMENTS, extent, read, state

FIRST = SEGMENTS[0]


class TopicContract:
    """Subclasses give the fixture `place`."""

    async def test_a_live_topic_gets_other_settings_and_no_other_does(self, place: Place):
        catalog, fence = await started(place)
        made = [await catalog.create_topic(fence, topic(name, settings=b"old")) for name in ("orders", "payments", "gone")]
        await catalog.delete_topic(fence, made[2].id, 10)
        await catalog.alter_topic(fence, made[1].id, b"new")
        for topic_id in (made[2].id, 99):
            with pytest.raises(TopicNotFound):
                await catalog.alter_topic(fence, topic_id, b"new")
        expected = [made[0], made[1]._replace(settings=b"new"), made[2]._replace(deleted=10)]
        assert await catalog.topics() == expected
        assert await (await place.again()).topics() == expected

    async def test_whoever_makes_a_topic_owns_its_partitions_if_nobody_else_is_named(self, place: Place):
        catalog, fence = await started(place)
        mine = await catalog.create_topic(fence, topic("mine", 3))
        shared = await catalog.create_topic(fence, topic("shared", 3), owners=[2, BROKER, 2])
        with pytest.raises(Conflict):
            await catalog.create_topic(fence, topic("wrong", 3), owners=[2])
        expected = [PartitionRow(mine.id, n, BROKER) for n in range(3)]
        expected += [PartitionRow(shared.id, 0, 2), PartitionRow(shared.id, 1, BROKER), PartitionRow(shared.id, 2, 2)]
        assert await catalog.partitions() == expected
        catalog = await place.again()
        assert await catalog.partitions(BROKER) == [row for row in expected if row.broker == BROKER]
        assert await catalog.partitions(2) == [row for row in expected if row.broker == 2]

    async def test_what_is_left_of_a_deleted_topic_goes_in_slices(self, place: Place):
        catalog, fence = await started(place)
        gone, stays = [await catalog.create_topic(fence, topic(name, 4)) for name in ("gone", "stays")]
        for made in (gone, stays):
            add = [extent(made.id, n % 3, 10 * n, 10 * n + 5, ((FIRST, 1), (SEGMENTS[made.id], 1))) for n in range(10)]
            states = [state(made.id, n % 4, 1, b"s", part=n // 4) for n in range(7)]
            await catalog.journal(fence).edit(Edit(add, (), states))
        with pytest.raises(Conflict):
            await catalog.journal(fence).forget_topic(gone.id, 100)
        await catalog.delete_topic(fence, gone.id, 10)
        left: list[int] = []
        for _ in range(5):
            more = await catalog.journal(fence).forget_topic(gone.id, 4)
            kept = await read(reading(catalog), 0)
            left.append(sum(key[0] == gone.id for rows in (kept.extents, kept.states) for key in rows))
            assert more == (left[-1] > 0)
        assert left == [13, 9, 5, 1, 0]
        assert (len(kept.extents), len(kept.states)) == (10, 7)
        assert await reading(catalog).usage() == {FIRST: 10, SEGMENTS[stays.id]: 10}
        assert not await catalog.journal(fence).forget_topic(gone.id, 4)
        assert not await catalog.journal(fence).forget_topic(99, 4)

    async def test_a_tombstone_goes_with_the_last_row_that_may_speak_of_its_topic_and_not_before(self, place: Place):
        catalog, fence = await started(place)
        made = [await catalog.create_topic(fence, topic(f"topic {n}")) for n in range(3)]
        for sequence in range(1, 31):
            await commit(catalog, fence, sequence, b"", [])
            if sequence in (5, 7):
                await catalog.delete_topic(fence, made[sequence // 6].id, 10)
        gone: dict[int, int] = {}
        for trim in range(1, 40):
            await catalog.journal(fence).edit(Edit(trim=trim))
            for missing in {row.id for row in made} - {row.id for row in await catalog.topics()}:
                gone.setdefault(missing, trim)
        assert gone == {made[0].id: 14, made[1].id: 16}
        again = await place.again()
        fence = (await again.register(BROKER)).fence
        assert (await again.create_topic(fence, topic("topic 0"))).id == made[2].id + 1

    async def test_the_last_topic_s_id_is_not_given_again_when_its_tombstone_has_gone(self, place: Place):
        catalog, fence = await started(place)
        made = await catalog.create_topic(fence, topic("orders"))
        await catalog.delete_topic(fence, made.id, 10)
        for sequence in range(1, 12):
            await commit(catalog, fence, sequence, b"", [])
        await catalog.journal(fence).edit(Edit(trim=8))
        assert len(await catalog.topics()) == 1
        await catalog.journal(fence).edit(Edit(trim=9))
        assert await catalog.topics() == []
        catalog = await place.again()
        fence = (await catalog.register(BROKER)).fence
        assert (await catalog.create_topic(fence, topic("orders"))).id == made.id + 1

    @pytest.mark.parametrize(
        "left", [Edit(add=[extent(1, 0, 1, 2)]), Edit(states=[state(1, 0, 1, b"head")]), Edit(states=[state(1, 0, 1, b"chunk", part=1)])]
    )
    async def test_a_tombstone_stays_for_as_long_as_anything_else_is_left_of_its_topic(self, place: Place, left: Edit):
        catalog, fence = await started(place)
        made = await catalog.create_topic(fence, topic("orders"))
        assert made.id == 1
        await catalog.journal(fence).edit(left)
        await catalog.delete_topic(fence, made.id, 10)
        for sequence in range(1, 31):
            await commit(catalog, fence, sequence, b"", [])
        await catalog.journal(fence).edit(Edit(trim=20))
        assert [row.id for row in await catalog.topics()] == [made.id]
        assert not await catalog.journal(fence).forget_topic(made.id, 10)
        await catalog.journal(fence).edit(Edit(trim=21))
        assert await catalog.topics() == []
