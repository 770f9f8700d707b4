"""What every catalog holds, whatever database is under it.

A catalog joins by a `Place`: where its durable state is, how to open it, and how to damage it behind its back. Incarnations are told
apart by their epochs, as in life. `beside` gives a second way to the same state while the first one is still in use, as an incarnation
that was dropped has it (in one process that may be the same object); `again` ends all there were and opens what is durable anew.

The race between a commit and an epoch being raised is the heart of it: when `register` has returned, the journal that the new
incarnation loads is the whole truth, and nothing of the old one may be added to it afterwards. What the old one was told to be
committed must be in it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from typing import Protocol

import pytest

from bowstring import frames
from bowstring.errors import TopicExists, TopicNotFound
from bowstring.ports.catalog import Catalog, Fence, Registered, TopicRow
from bowstring.ports.failures import Damaged, Fenced
from bowstring.ports.journal import Journal, Row
from bowstring.ports.store import Page, Reference

BROKER = 1


class Place(Protocol):
    """Where the durable state of a catalog is."""

    async def open(self) -> Catalog:
        """Opens it for the first time."""
        ...

    async def beside(self) -> Catalog:
        """Another way to the same state, while the first is open."""
        ...

    async def again(self) -> Catalog:
        """Everything is closed, and what is durable is opened."""
        ...

    async def flip_a_byte(self, sequence: int, column: str, position: int) -> None:
        """Damages the column of that journal row behind the catalog's back: the byte there is another one."""
        ...

    async def lose_a_row(self, sequence: int) -> None:
        """Takes a journal row out."""
        ...

    async def flip_a_bit(self, table: str, key: dict[str, int], column: str) -> None:
        """Damages a value of the row with that key: a number or the first byte of bytes has its lowest bit flipped, a NULL becomes 1."""
        ...


def references_of(sequence: int, pages: Sequence[Page], broker: int = BROKER) -> list[Reference]:
    """Where the pages of a commit are, as a flusher reckons."""
    return frames.inlined(pages, broker, 1, sequence).references


async def commit(catalog: Catalog, fence: Fence, sequence: int, changes: bytes, pages: Sequence[Page]) -> None:
    """As a flusher does it."""
    await catalog.journal(fence).commit(sequence, changes, frames.inlined(pages, *fence, sequence).data)


def reading(catalog: Catalog, broker: int = BROKER) -> Journal:
    """The broker's journal for somebody who only reads: no fence is needed for that."""
    return catalog.journal(Fence(broker, 0))


def same_pages(left: Sequence[Page], right: Sequence[Page]) -> bool:
    """Whether they have the same bytes, in whatever kinds of buffer."""
    return [(page.header, bytes(page.body)) for page in left] == [(page.header, bytes(page.body)) for page in right]


async def journal_of(catalog: Catalog) -> list[Row]:
    return await reading(catalog).rows(0, 1_000_000)


def topic(name: str, partitions: int = 1, created: int = 0, settings: bytes = b"") -> TopicRow:
    return TopicRow(0, name, partitions, created, settings, None)


PAGES = [Page(b"whose rows", b"a batch"), Page(b"", memoryview(bytes(range(256)) * 20)), Page(b"h" * 64, bytearray(b"x" * 128))]


class CatalogContract:
    """Subclasses give the fixture `place`."""

    # ---- registering -------------------------------------------------------------------------------------------------

    async def test_every_incarnation_gets_a_higher_epoch_than_the_one_before(self, place: Place):
        catalog = await place.open()
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 1), 0)
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 2), 0)
        catalog = await place.again()
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 3), 0)

    async def test_an_incarnation_starts_behind_the_last_row(self, place: Place):
        catalog = await place.open()
        first = await catalog.register(BROKER)
        for sequence in (1, 2, 3):
            await commit(catalog, first.fence, sequence, b"changes", [])
        catalog = await place.again()
        assert await catalog.register(BROKER) == Registered(Fence(BROKER, 2), 3)

    async def test_nobody_commits_or_makes_topics_without_having_registered(self, place: Place):
        catalog = await place.open()
        for epoch in (0, 1):
            with pytest.raises(Fenced):
                await commit(catalog, Fence(BROKER, epoch), 1, b"changes", [])
            with pytest.raises(Fenced):
                await catalog.create_topic(Fence(BROKER, epoch), topic("orders"))
        assert await journal_of(catalog) == []
        assert await catalog.topics() == []

    # ---- committing --------------------------------------------------------------------------------------------------

    async def test_a_committed_row_is_there_after_reopening(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"first", [])
        await commit(catalog, fence, 2, b"", [])
        await commit(catalog, fence, 3, bytes(range(256)) * 400, [])
        expected = [Row(1, 1, b"first"), Row(2, 1, b""), Row(3, 1, bytes(range(256)) * 400)]
        assert await journal_of(catalog) == expected
        assert await journal_of(await place.again()) == expected

    @pytest.mark.parametrize("sequence", [0, 1, 2, 4, 5, 1 << 62])
    async def test_a_commit_with_the_wrong_sequence_is_fenced_and_stores_nothing(self, place: Place, sequence: int):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"first", [])
        await commit(catalog, fence, 2, b"second", [])
        with pytest.raises(Fenced):
            await commit(catalog, fence, sequence, b"another", PAGES)
        assert await journal_of(catalog) == [Row(1, 1, b"first"), Row(2, 1, b"second")]
        await commit(catalog, fence, 3, b"third", [])

    async def test_an_older_epoch_is_fenced(self, place: Place):
        catalog, old = await started(place)
        await commit(catalog, old, 1, b"first", [])
        new = (await catalog.register(BROKER)).fence
        for sequence in (1, 2, 3):
            with pytest.raises(Fenced):
                await commit(catalog, old, sequence, b"first", [])
        with pytest.raises(Fenced):
            await commit(catalog, Fence(BROKER, new.epoch + 1), 2, b"from the future", [])
        await commit(catalog, new, 2, b"second", [])
        assert await journal_of(catalog) == [Row(1, 1, b"first"), Row(2, 2, b"second")]

    async def test_a_repeated_commit_of_the_very_same_row_is_answered_as_landed(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"first", PAGES)
        await commit(catalog, fence, 1, b"first", PAGES)
        await commit(catalog, fence, 2, b"second", [])
        await commit(catalog, fence, 1, b"first", PAGES)
        await commit(catalog, fence, 2, b"second", [])
        assert await journal_of(catalog) == [Row(1, 1, b"first"), Row(2, 1, b"second")]
        assert same_pages(await reading(catalog).read(references_of(1, PAGES)), PAGES)

    async def test_a_row_that_differs_in_changes_or_pages_is_not_the_very_same(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"first", PAGES[:1])
        other_page = Page(PAGES[0].header, b"A batch")
        for changes, pages in [(b"First", PAGES[:1]), (b"first", []), (b"first", PAGES[:2]), (b"first", [other_page])]:
            with pytest.raises(Fenced):
                await commit(catalog, fence, 1, changes, pages)
        assert same_pages(await reading(catalog).read(references_of(1, PAGES[:1])), PAGES[:1])

    async def test_a_thousand_commits_are_all_there_in_order(self, place: Place):
        catalog, fence = await started(place)
        expected: list[Row] = []
        for sequence in range(1, 1_001):
            changes = sequence.to_bytes(8, "big") * (sequence % 40)
            await commit(catalog, fence, sequence, changes, PAGES[: sequence % 4])
            expected.append(Row(sequence, 1, changes))
        assert await journal_of(catalog) == expected
        catalog = await place.again()
        assert await journal_of(catalog) == expected
        for sequence in (1, 333, 999):
            pages = PAGES[: sequence % 4]
            assert same_pages(await reading(catalog).read(references_of(sequence, pages)), pages)

    async def test_commits_that_were_handed_over_together_land_in_order(self, place: Place):
        catalog, fence = await started(place)
        await asyncio.gather(*(commit(catalog, fence, sequence, b"%d" % sequence, []) for sequence in range(1, 101)))
        assert [row.changes for row in await journal_of(catalog)] == [b"%d" % sequence for sequence in range(1, 101)]

    # ---- the race ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(5))
    async def test_nothing_of_an_old_epoch_lands_after_a_new_one_was_registered(self, place: Place, seed: int):
        draw = random.Random(seed)
        old, beside = await place.open(), await place.beside()
        for _ in range(40):
            await race(old, beside, draw)
        whole = await journal_of(await place.again())
        assert [row.sequence for row in whole] == list(range(1, len(whole) + 1))
        assert [row.epoch for row in whole] == sorted(row.epoch for row in whole)

    @pytest.mark.parametrize("commit_first", [True, False])
    async def test_a_commit_handed_over_with_a_registration_lands_before_it_or_never(self, place: Place, commit_first: bool):
        old, new = await place.open(), await place.beside()
        sequence = 0
        for _ in range(50):
            fence = (await old.register(BROKER)).fence
            committing, register = commit(old, fence, sequence + 1, b"racing", []), new.register(BROKER)
            calls: list[Awaitable[object]] = [committing, register] if commit_first else [register, committing]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            committed, registered = answers if commit_first else reversed(answers)
            assert isinstance(registered, Registered)
            assert committed is None or isinstance(committed, Fenced)
            assert registered.sequence == sequence + (committed is None)
            sequence = registered.sequence
            assert len(await journal_of(new)) == sequence

    # ---- loading -----------------------------------------------------------------------------------------------------

    async def test_the_journal_is_read_page_by_page(self, place: Place):
        catalog, fence = await started(place)
        for sequence in range(1, 26):
            await commit(catalog, fence, sequence, b"%d" % sequence, PAGES[:1])
        found: list[Row] = []
        while rows := await reading(catalog).rows(found[-1].sequence if found else 0, 10):
            assert len(rows) <= 10
            found += rows
        assert [(row.sequence, row.changes) for row in found] == [(n, b"%d" % n) for n in range(1, 26)]
        assert await reading(catalog).rows(25, 10) == []
        assert await reading(catalog).rows(100, 10) == []

    async def test_a_flipped_byte_in_a_row_is_damage_that_names_the_sequence(self, place: Place):
        catalog, fence = await started(place)
        for sequence in range(1, 6):
            await commit(catalog, fence, sequence, b"changes", [])
        await place.flip_a_byte(3, "changes", 2)
        catalog = await place.again()
        with pytest.raises(Damaged, match=r"\b3\b"):
            await journal_of(catalog)
        assert [row.sequence for row in await reading(catalog).rows(0, 2)] == [1, 2]
        assert [row.sequence for row in await reading(catalog).rows(3, 10)] == [4, 5]

    @pytest.mark.parametrize("lost", [1, 3])
    async def test_a_missing_row_is_damage_that_names_the_sequence(self, place: Place, lost: int):
        catalog, fence = await started(place)
        for sequence in range(1, 6):
            await commit(catalog, fence, sequence, b"changes", [])
        await place.lose_a_row(lost)
        with pytest.raises(Damaged, match=rf"\b{lost}\b"):
            await journal_of(await place.again())

    # ---- inlined pages -----------------------------------------------------------------------------------------------

    async def test_inlined_pages_come_back_in_whatever_order_they_are_asked_for(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"one", PAGES)
        await commit(catalog, fence, 2, b"none", [])
        await commit(catalog, fence, 3, b"two", PAGES[:2])
        references, pages = references_of(1, PAGES) + references_of(3, PAGES[:2]), PAGES + PAGES[:2]
        assert same_pages(await reading(catalog).read(references), pages)
        catalog = await place.again()
        assert same_pages(await reading(catalog).read(references[::-1]), pages[::-1])
        assert same_pages(await reading(catalog).read(references[1::2] + references[::2]), pages[1::2] + pages[::2])
        assert await reading(catalog).read([]) == []

    async def test_a_page_with_a_flipped_byte_is_damaged_and_its_neighbours_are_not(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"changes", PAGES)
        references = references_of(1, PAGES)
        await place.flip_a_byte(1, "pages", references[1].position + references[1].length - 1)
        catalog = await place.again()
        assert await journal_of(catalog) == [Row(1, 1, b"changes")]
        with pytest.raises(Damaged):
            await reading(catalog).read([references[1]])
        with pytest.raises(Damaged):
            await reading(catalog).read(references)
        assert same_pages(await reading(catalog).read([references[0], references[2]]), [PAGES[0], PAGES[2]])

    async def test_a_reference_to_what_is_not_there_is_damage_and_reading_goes_on(self, place: Place):
        catalog, fence = await started(place)
        await commit(catalog, fence, 1, b"with pages", PAGES)
        await commit(catalog, fence, 2, b"without", [])
        good = references_of(1, PAGES)[0]
        end = frames.padded(references_of(1, PAGES)[-1].position + references_of(1, PAGES)[-1].length)
        for bad in [good._replace(sequence=2), good._replace(sequence=7), good._replace(position=64), good._replace(position=end)]:
            with pytest.raises(Damaged):
                await reading(catalog).read([bad])
            with pytest.raises(Damaged):
                await reading(catalog).read([good, bad])
            assert same_pages(await reading(catalog).read([good]), PAGES[:1])

    # ---- topics ------------------------------------------------------------------------------------------------------

    async def test_topics_are_there_after_reopening_with_all_that_was_said_about_them(self, place: Place):
        catalog, fence = await started(place)
        made = [
            await catalog.create_topic(fence, topic("orders", 3, 1_700_000_000_000_000, b"\x00settings")),
            await catalog.create_topic(fence, topic("Orders", 1)),
            await catalog.create_topic(fence, topic("été 夏", 10_000, settings=b"x" * 5_000)),
        ]
        assert made[0] == TopicRow(made[0].id, "orders", 3, 1_700_000_000_000_000, b"\x00settings", None)
        assert await catalog.topics() == made
        assert await (await place.again()).topics() == made

    async def test_a_live_topic_keeps_its_name_to_itself(self, place: Place):
        catalog, fence = await started(place)
        made = await catalog.create_topic(fence, topic("orders"))
        with pytest.raises(TopicExists, match="orders"):
            await catalog.create_topic(fence, topic("orders", 5))
        assert await catalog.topics() == [made]

    async def test_a_name_is_free_again_after_deletion_and_ids_are_never_used_twice(self, place: Place):
        catalog, fence = await started(place)
        ids: list[int] = []
        for moment in range(1, 6):
            made = await catalog.create_topic(fence, topic("orders", created=moment))
            await catalog.delete_topic(fence, made.id, moment + 1)
            ids.append(made.id)
            catalog = await place.again()
            fence = (await catalog.register(BROKER)).fence
        assert ids == sorted(set(ids))
        assert [(row.id, row.name, row.deleted) for row in await catalog.topics()] == [
            (n, "orders", m) for n, m in zip(ids, range(2, 7), strict=True)
        ]

    async def test_a_topic_that_is_not_there_cannot_be_deleted_nor_one_twice(self, place: Place):
        catalog, fence = await started(place)
        made = await catalog.create_topic(fence, topic("orders"))
        await catalog.delete_topic(fence, made.id, 10)
        for topic_id in (made.id, made.id + 1):
            with pytest.raises(TopicNotFound):
                await catalog.delete_topic(fence, topic_id, 20)
        assert [row.deleted for row in await catalog.topics()] == [10]

    async def test_an_old_epoch_neither_makes_nor_deletes_topics(self, place: Place):
        catalog, old = await started(place)
        made = await catalog.create_topic(old, topic("orders"))
        await catalog.register(BROKER)
        with pytest.raises(Fenced):
            await catalog.create_topic(old, topic("payments"))
        with pytest.raises(Fenced):
            await catalog.create_topic(old, topic("orders"))
        with pytest.raises(Fenced):
            await catalog.delete_topic(old, made.id, 10)
        assert await catalog.topics() == [made]


async def started(place: Place) -> tuple[Catalog, Fence]:
    """A catalog, and the fence of its first incarnation."""
    catalog = await place.open()
    return catalog, (await catalog.register(BROKER)).fence


async def make_topics(catalog: Catalog, fence: Fence, last: int = 7) -> None:
    """Topics up to that id, of 8 partitions each, which the broker owns."""
    for number in range(len(await catalog.topics()) + 1, last + 1):
        assert (await catalog.create_topic(fence, topic(f"made {number}", 8))).id == number


async def race(old: Catalog, beside: Catalog, draw: random.Random) -> None:
    """One incarnation commits as fast as it can, another takes over in the middle of it, and is believed."""
    start = await old.register(BROKER)
    fence = start.fence
    committed: list[Row] = []

    async def commit_on() -> None:
        for sequence in range(start.sequence + 1, start.sequence + draw.randrange(2, 12)):
            await turns(draw)
            changes = draw.randbytes(draw.randrange(0, 200))
            await commit(old, fence, sequence, changes, [])
            committed.append(Row(sequence, fence.epoch, changes))

    async def take_over() -> tuple[Registered, list[Row]]:
        await turns(draw)
        return await beside.register(BROKER), await journal_of(beside)

    taken, ended = await asyncio.gather(take_over(), commit_on(), return_exceptions=True)
    assert not isinstance(taken, BaseException)
    assert ended is None or isinstance(ended, Fenced)
    new, loaded = taken
    assert len(loaded) == new.sequence
    assert set(committed) <= set(loaded)
    for sequence in (new.sequence, new.sequence + 1):
        with pytest.raises(Fenced):
            await commit(old, fence, sequence, b"too late", [])
    assert await journal_of(beside) == loaded
    await commit(beside, new.fence, new.sequence + 1, b"new", [])
    assert await journal_of(beside) == [*loaded, Row(new.sequence + 1, new.fence.epoch, b"new")]


async def turns(draw: random.Random) -> None:
    """Lets others go first, a few times or not at all."""
    for _ in range(draw.randrange(0, 8)):
        await asyncio.sleep(0)
