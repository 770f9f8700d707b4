"""The local store over many lives: whatever is appended, synced, released, cut and opened again, in any order, what counts stays.

The model knows three sets of pages: those that were synced and are referred to, which must be read back the same, always; those that
were not synced when their incarnation ended; and those that were released. Of the last two nothing may be served but the right bytes.
"""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from bowstring.ports.failures import Damaged
from bowstring.ports.store import Page, Reference
from bowstring.store.local import LocalStore
from tests.contract.scripted_disk import Platter, ScriptedDisk

KIB = 1 << 10
STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 40 * KIB), min_size=1, max_size=4)),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("release"), st.integers(0, 5)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("cut"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


class Lives:
    """A store, the platter under it, and what the model knows."""

    def __init__(self) -> None:
        self.platter = Platter()
        self.epoch = 0
        self.sequence = 0
        self.synced: dict[Reference, Page] = {}
        self.pending: dict[Reference, Page] = {}
        self.gone: dict[Reference, Page] = {}
        self.store = self._store()

    def _store(self) -> LocalStore:
        return LocalStore(
            ScriptedDisk(self.platter), segment_bytes_first=32 * KIB, segment_bytes_max=64 * KIB, free_files_max=2, handles_max=2
        )

    async def begin(self) -> None:
        """A new incarnation: what was not synced is lost to it."""
        self.gone |= self.pending
        self.pending = {}
        self.epoch += 1
        await self.store.open(self.epoch, {reference.segment for reference in self.synced})
        await self.check()

    async def step(self, what: str, argument: object) -> None:
        match what, argument:
            case "append", list(sizes):
                self.sequence += 1
                pages = [Page(f"{self.sequence}".encode(), f"{self.sequence}-{n};".encode() * (size // 6)) for n, size in enumerate(sizes)]
                self.pending.update(zip(await self.store.append(self.sequence, pages), pages, strict=True))
            case "sync", _:
                await self.store.sync()
                self.synced |= self.pending
                self.pending = {}
            case "release", int(which):
                await self._release(which)
            case "reopen", _:
                await self.begin()
            case "restart", _:
                await self.store.close()
                self.store = self._store()
                await self.begin()
            case _:
                self.platter.cut()
                self.store = self._store()
                await self.begin()

    async def _release(self, which: int) -> None:
        """Drops one segment that holds nothing pending. The one that is being written is refused by the store itself."""
        segments = sorted({reference.segment for reference in self.synced} - {reference.segment for reference in self.pending})
        if segments:
            segment = segments[which % len(segments)]
            released = {reference: page for reference, page in self.synced.items() if reference.segment == segment}
            self.synced = {reference: page for reference, page in self.synced.items() if reference.segment != segment}
            self.gone |= released
            await self.store.release([segment])

    async def check(self) -> None:
        found = await self.store.read(list(self.synced))
        assert [bytes(page.body) for page in found] == [page.body for page in self.synced.values()]
        for reference, page in self.gone.items():
            try:
                (served,) = await self.store.read([reference])
            except Damaged:
                continue
            assert (served.header, bytes(served.body)) == page


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=150)
def test_what_was_synced_and_is_referred_to_is_read_back_the_same_after_any_history(steps: list[tuple[str, object]]):
    async def live() -> None:
        lives = Lives()
        await lives.begin()
        for what, argument in steps:
            await lives.step(what, argument)
        await lives.step("sync", None)
        await lives.step("cut", None)
        await lives.check()
        await lives.store.close()

    asyncio.run(live())
