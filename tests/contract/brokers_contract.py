"""What every catalog holds when several brokers share it: each has its own journal and its own partitions, and sees nothing else.

Two brokers work in one catalog at the same time. What one trims, forgets or edits leaves the other's rows alone. The epoch of one may be
raised while the other commits: that one goes on, and the old incarnation of the first can commit nothing any more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import pytest

from bowstring.ports.catalog import Catalog, Fence, Registered
from bowstring.ports.failures import Damaged, Fenced
from bowstring.ports.journal import Edit, Row
from tests.contract.catalog_contract import PAGES, Place, commit, reading, references_of, same_pages, topic, turns
from tests.contract.edit_model import SEGMENTS, Kept, extent, read, state

ONE, TWO = 1, 2
FIRST, SECOND = SEGMENTS[:2]


async def both(place: Place) -> tuple[Catalog, Fence, Fence]:
    """A catalog with two brokers and three topics: the first is broker 1's, the second broker 2's, the third belongs to both."""
    catalog = await place.open()
    one, two = (await catalog.register(ONE)).fence, (await catalog.register(TWO)).fence
    await catalog.create_topic(one, topic("ones", 3))
    await catalog.create_topic(two, topic("twos", 3))
    await catalog.create_topic(one, topic("shared", 2), owners=[ONE, TWO])
    return catalog, one, two


def edit_of(broker: int, topics: tuple[int, ...], sequence: int = 1) -> Edit:
    """Extents and states in partition 0 of these topics, or in partition 1 of the shared one."""
    where = [(topic, 1 if topic == 3 and broker == TWO else 0) for topic in topics]
    return Edit(
        add=[extent(*at, 1, 11, ((FIRST, 100 * broker), (SEGMENTS[1 + broker], 7)), broker=broker) for at in where],
        states=[state(*at, sequence, b"head of %d" % broker, broker=broker) for at in where],
    )


class BrokersContract:
    """Subclasses give the fixture `place`."""

    async def test_no_two_incarnations_of_any_brokers_have_the_same_epoch(self, place: Place):
        catalog = await place.open()
        draw, epochs = random.Random(1), []
        for turn in range(30):
            epochs.append((await catalog.register(draw.choice((ONE, TWO, 3)))).fence.epoch)
            if turn % 10 == 9:
                catalog = await place.again()
        assert epochs == sorted(set(epochs))

    async def test_a_new_epoch_of_one_leaves_the_other_in_office(self, place: Place):
        catalog, one, two = await both(place)
        newer = (await catalog.register(TWO)).fence
        await commit(catalog, one, 1, b"goes on", [])
        for fence in (two, Fence(TWO, one.epoch), Fence(ONE, two.epoch), Fence(ONE, newer.epoch)):
            with pytest.raises(Fenced):
                await commit(catalog, fence, 1 if fence.broker == TWO else 2, b"of nobody", [])
            with pytest.raises(Fenced):
                await catalog.create_topic(fence, topic("nobody's"))
        await commit(catalog, newer, 1, b"takes over", [])

    async def test_each_counts_its_own_flushes_and_reads_its_own_rows_and_pages(self, place: Place):
        catalog, one, two = await both(place)
        for sequence in range(1, 6):
            await commit(catalog, one, sequence, b"one %d" % sequence, PAGES[:1])
            if sequence <= 3:
                await commit(catalog, two, sequence, b"two %d" % sequence, PAGES[1:])
        for again in (False, True):
            catalog = await place.again() if again else catalog
            assert [row.changes for row in await reading(catalog, ONE).rows(0, 99)] == [b"one %d" % n for n in range(1, 6)]
            assert await reading(catalog, TWO).rows(1, 1) == [Row(2, two.epoch, b"two 2")]
            assert await reading(catalog, TWO).rows(3, 9) == []
            assert await reading(catalog, 3).rows(0, 9) == []
            for broker, pages in ((ONE, PAGES[:1]), (TWO, PAGES[1:])):
                assert same_pages(await reading(catalog, broker).read(references_of(2, pages, broker)), pages)
        references = references_of(3, PAGES[:1], ONE) + references_of(3, PAGES[1:], TWO) + references_of(1, PAGES[:1], ONE)
        assert same_pages(await reading(catalog, ONE).read(references), [*PAGES[:1], *PAGES[1:], *PAGES[:1]])
        with pytest.raises(Damaged):
            await reading(catalog, TWO).read(references_of(5, PAGES[:1], TWO))
        with pytest.raises(Damaged):
            await reading(catalog, ONE).read(references_of(3, PAGES[:1], TWO))
        assert [(await catalog.register(broker)).sequence for broker in (ONE, TWO, 3)] == [5, 3, 0]

    async def test_queries_of_one_never_see_the_rows_of_the_other(self, place: Place):
        catalog, one, two = await both(place)
        mine, yours = edit_of(ONE, (1, 3)), edit_of(TWO, (2, 3))
        await catalog.journal(one).edit(mine)
        await catalog.journal(two).edit(yours)
        for again in (False, True):
            catalog = await place.again() if again else catalog
            assert await read(reading(catalog, ONE), 0) == Kept().edited(mine, 9)
            assert await read(reading(catalog, TWO), 0) == Kept().edited(yours, 9)
            assert await read(reading(catalog, 3), 0) == Kept()
            assert [row.topic for row in await catalog.partitions(ONE)] == [1, 1, 1, 3]
            assert [(row.topic, row.number) for row in await catalog.partitions(TWO)] == [(2, 0), (2, 1), (2, 2), (3, 1)]

    @pytest.mark.parametrize("what", ["add", "drop", "states"])
    async def test_nobody_edits_a_partition_that_another_owns(self, place: Place, what: str):
        catalog, one, two = await both(place)
        await catalog.journal(one).edit(edit_of(ONE, (1,)))
        edits = {
            "add": Edit(add=[extent(1, 0, 11, 12, broker=TWO)]),
            "drop": Edit(drop=[extent(1, 0, 1, 11).key]),
            "states": Edit(states=[state(1, 0, 9, b"two's", broker=TWO)]),
        }
        with pytest.raises(Fenced, match="does not own"):
            await catalog.journal(two).edit(edits[what]._replace(trim=1))
        assert await read(reading(catalog, ONE), 0) == Kept().edited(edit_of(ONE, (1,)), 9)

    async def test_a_trim_of_one_leaves_the_journal_of_the_other(self, place: Place):
        catalog, one, two = await both(place)
        for sequence in range(1, 9):
            await commit(catalog, one, sequence, b"one", PAGES[:1])
            await commit(catalog, two, sequence, b"two", PAGES[:1])
        await catalog.journal(two).edit(Edit(trim=1 << 60))
        await catalog.journal(one).edit(Edit(trim=3))
        for again in (False, True):
            catalog = await place.again() if again else catalog
            assert (await catalog.register(ONE))[1:] == (8, 3)
            assert (await catalog.register(TWO))[1:] == (8, 7)
            assert [row.sequence for row in await reading(catalog, ONE).rows(3, 99)] == [4, 5, 6, 7, 8]
            assert len(await reading(catalog, ONE).read(references_of(4, PAGES[:1], ONE))) == 1

    async def test_what_one_forgets_of_a_deleted_topic_the_other_still_has(self, place: Place):
        catalog, one, two = await both(place)
        await catalog.journal(one).edit(edit_of(ONE, (1, 3)))
        await catalog.journal(two).edit(edit_of(TWO, (2, 3)))
        await catalog.delete_topic(one, 3, 10)
        assert not await catalog.journal(one).forget_topic(3, 100)
        assert await read(reading(catalog, ONE), 0) == Kept().edited(edit_of(ONE, (1,)), 9)
        assert await read(reading(catalog, TWO), 0) == Kept().edited(edit_of(TWO, (2, 3)), 9)
        assert await catalog.journal(two).forget_topic(3, 1)
        assert not await catalog.journal(two).forget_topic(3, 1)
        assert await read(reading(catalog, TWO), 0) == Kept().edited(edit_of(TWO, (2,)), 9)

    async def test_a_tombstone_stays_until_no_journal_can_speak_of_its_topic(self, place: Place):
        catalog, one, two = await both(place)
        for sequence in range(1, 31):
            await commit(catalog, one, sequence, b"", [])
        for sequence in range(1, 6):
            await commit(catalog, two, sequence, b"", [])
        await catalog.delete_topic(one, 3, 10)  # at flush 30 of one, and flush 5 of two
        for sequence in range(31, 61):
            await commit(catalog, one, sequence, b"", [])
        for sequence in range(6, 31):
            await commit(catalog, two, sequence, b"", [])
        await catalog.journal(one).edit(Edit(trim=50))
        assert len(await catalog.topics()) == 3
        await catalog.journal(two).edit(Edit(trim=13))
        assert len(await catalog.topics()) == 3
        await catalog.journal(two).edit(Edit(trim=14))
        assert [row.id for row in await catalog.topics()] == [1, 2]
        assert [row for row in await catalog.partitions() if row.topic == 3] == []

    async def test_an_owner_that_has_not_committed_yet_keeps_the_tombstone(self, place: Place):
        catalog, one, two = await both(place)
        for sequence in range(1, 31):
            await commit(catalog, one, sequence, b"", [])
        await catalog.delete_topic(one, 3, 10)
        for sequence in range(31, 61):
            await commit(catalog, one, sequence, b"", [])
        await catalog.journal(one).edit(Edit(trim=59))
        assert len(await catalog.topics()) == 3  # a flush of the other may be under way that speaks of it
        for sequence in range(1, 12):
            await commit(catalog, two, sequence, b"", [])
        await catalog.journal(two).edit(Edit(trim=9))
        assert len(await catalog.topics()) == 2

    async def test_a_state_as_of_another_journal_is_replaced_by_the_new_owner(self, place: Place):
        catalog, one, _ = await both(place)
        await catalog.journal(one).edit(Edit(states=[state(1, 0, 7, b"moved here", broker=TWO)]))
        await catalog.journal(one).edit(Edit(states=[state(1, 0, 2, b"ours", broker=ONE)]))
        assert await reading(catalog, ONE).states() == [state(1, 0, 2, b"ours", broker=ONE)]
        with pytest.raises(Damaged, match="older"):
            await catalog.journal(one).edit(Edit(states=[state(1, 0, 1, b"older", broker=ONE)]))

    @pytest.mark.parametrize("column", ["topic", "partition"])
    @pytest.mark.parametrize("table", ["state", "extent", "segment_use"])
    async def test_a_row_whose_key_was_damaged_into_the_other_s_is_not_passed_over(self, place: Place, table: str, column: str):
        """Partition 0 of topic 3 is broker 1's, partition 1 of it and topic 2 are broker 2's."""
        catalog, one, _ = await both(place)
        await catalog.journal(one).edit(edit_of(ONE, (3,)))
        key = {"topic": 3, "partition": 0} | ({"segment": FIRST} if table == "segment_use" else {})
        await place.flip_a_bit(table, key, column)
        journal = reading(await place.again(), ONE)
        with pytest.raises(Damaged):
            await {"state": journal.states, "extent": journal.sealed, "segment_use": journal.usage}[table]()

    @pytest.mark.parametrize("commit_first", [True, False])
    async def test_a_commit_of_one_handed_over_with_a_new_epoch_of_the_other_lands(self, place: Place, commit_first: bool):
        catalog, one, _ = await both(place)
        beside = await place.beside()
        for sequence in range(1, 41):
            committing, register = commit(catalog, one, sequence, b"racing", []), beside.register(TWO)
            calls: list[Awaitable[object]] = [committing, register] if commit_first else [register, committing]
            answers = await asyncio.gather(*calls)
            assert None in answers
        assert len(await reading(catalog, ONE).rows(0, 99)) == 40
        assert await reading(catalog, TWO).rows(0, 99) == []

    @pytest.mark.parametrize("seed", range(5))
    async def test_two_brokers_commit_and_are_taken_over_at_the_same_time(self, place: Place, seed: int):
        """Each number has incarnations one after the other, which commit as fast as they can; a takeover comes in the middle. What was told
        to be committed is in the journal that the next one loads, and nothing of an old one comes later."""
        draw = random.Random(seed)
        catalog, beside = await place.open(), await place.beside()
        told: dict[int, list[Row]] = {ONE: [], TWO: []}

        async def incarnation(broker: int, started: Registered) -> None:
            for sequence in range(started.sequence + 1, started.sequence + 9):
                await turns(draw)
                changes = b"%d of %d" % (sequence, started.fence.epoch)
                await commit(catalog, started.fence, sequence, changes, PAGES[: sequence % 2])
                told[broker].append(Row(sequence, started.fence.epoch, changes))

        async def life(broker: int) -> None:
            started = await beside.register(broker)
            for _ in range(12):
                running = asyncio.ensure_future(incarnation(broker, started))
                for _ in range(draw.randrange(4)):
                    await turns(draw)
                old, started = started, await beside.register(broker)
                loaded = await reading(beside, broker).rows(0, 999)
                assert len(loaded) == started.sequence
                await asyncio.wait([running])
                assert running.exception() is None or isinstance(running.exception(), Fenced)
                assert set(told[broker]) <= set(loaded)
                with pytest.raises(Fenced):
                    await commit(catalog, old.fence, started.sequence + 1, b"too late", [])
                assert await reading(beside, broker).rows(0, 999) == loaded

        await asyncio.gather(life(ONE), life(TWO))
        catalog = await place.again()
        for broker in (ONE, TWO):
            rows = await reading(catalog, broker).rows(0, 999)
            assert set(told[broker]) <= set(rows)
            assert [row.epoch for row in rows] == sorted(row.epoch for row in rows)
        epochs = [{row.epoch for row in await reading(catalog, broker).rows(0, 999)} for broker in (ONE, TWO)]
        assert not epochs[0] & epochs[1]
