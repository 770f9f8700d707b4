"""One broker's part of the catalog in SQLite: its journal, its inlined pages, and edits.

A commit is one statement that stores the journal row if the epoch is still the fence's and the row
before is the last one. The check is there because the incarnation that asks may be one that this
process has dropped already.

If a commit stores nothing, the journal finds out why. If the very same row is there, it landed
before, and the commit succeeds; a caller whose answer was lost can ask this way. Everything else is
`Fenced`.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from bowstring import frames
from bowstring.catalog import journal_rows
from bowstring.catalog.sqlite import extents
from bowstring.catalog.sqlite.database import Database
from bowstring.errors import Conflict
from bowstring.ports.catalog import Fence
from bowstring.ports.extents import Extent, ExtentKey, Sealed, StateRow
from bowstring.ports.failures import Damaged, Fenced
from bowstring.ports.journal import Edit, Row
from bowstring.ports.store import Page, Reference

_NewRow = dict[str, int | bytes | None]  # a journal row by the names of its columns


class SqliteJournal:
    """`ports.journal.Journal` of one fence."""

    def __init__(self, database: Database, fence: Fence) -> None:
        self._database = database
        self.fence = fence
        self._span = journal_rows.span(fence.broker)
        self._constant = {"broker": fence.broker, "epoch": fence.epoch, **self._span}

    # ---- the port ----------------------------------------------------------------------------------------------------

    async def commit(self, sequence: int, changes: bytes, inlined: bytes | None) -> None:
        position = self._span["first"] + sequence
        crc = journal_rows.checksum(position, self.fence.epoch, changes, len(inlined or b""))
        row: _NewRow = {**self._constant, "position": position, "crc": crc, "changes": changes, "pages": inlined}
        await self._database.worker.run(lambda: self._commit(row))
        self._database.checkpoint_if_due()

    async def rows(self, after: int, rows_max: int) -> list[Row]:
        return await self._database.look(lambda connection: self._rows(connection, after, rows_max))

    async def read(self, references: Sequence[Reference]) -> list[Page]:
        return await self._database.look(_read, references)

    async def edit(self, edit: Edit) -> None:
        prepared = extents.prepare(edit, self._span["first"])
        await self._database.change(self.fence, lambda connection: extents.apply(connection, prepared, self.fence.broker, self._span))

    async def states(self) -> list[StateRow]:
        return await self._database.look(extents.states, self.fence.broker)

    async def sealed(self) -> list[Sealed]:
        return await self._database.look(extents.sealed, self.fence.broker)

    async def usage(self) -> dict[int, int]:
        return await self._database.look(extents.usage, self.fence.broker)

    async def extents(self, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
        return await self._database.look(extents.extents, topic, partition, offset, rows_max)

    async def extents_in(self, segment: int, after: ExtentKey | None, rows_max: int) -> list[Extent]:
        behind = after or ExtentKey(0, 0, 0)  # ids of topics begin at 1
        return await self._database.look(extents.extents_in, self.fence.broker, segment, behind, rows_max)

    async def forget_topic(self, topic_id: int, rows_max: int) -> bool:
        return await self._database.change(self.fence, lambda connection: self._forget_topic(connection, topic_id, rows_max))

    # ---- on the worker -----------------------------------------------------------------------------------------------

    def _commit(self, row: _NewRow) -> None:
        database = self._database
        with database.writing() as connection:
            connection.execute(database.sql["commit"], row)
            if connection.changes() == 0:
                self._explain(connection, row)
            database.commits += 1

    def _explain(self, connection: apsw.Connection, row: _NewRow) -> None:
        """Why a commit stored nothing. Returns if the very same row is there already."""
        self._database.check_epoch(connection, self.fence)
        if self._database.ask(connection, "landed", **row) is None:
            last = self._database.ask(connection, "last_position", **self._span) - self._span["first"]
            raise Fenced(f"the journal of broker {self.fence.broker} ends at {last}, so the row is not the next one")

    def _rows(self, connection: apsw.Connection, after: int, rows_max: int) -> list[Row]:
        first, last = self._span["first"], self._span["last"]
        values = {"after": first + after, "last": last, "rows_max": rows_max}
        return journal_rows.verified(self.fence.broker, after, connection.execute(self._database.sql["rows"], values))

    def _forget_topic(self, connection: apsw.Connection, topic_id: int, rows_max: int) -> bool:
        if self._database.ask(connection, "is_live", id=topic_id) is not None:
            raise Conflict(f"The topic with the id {topic_id} is not deleted.")
        return extents.forget(connection, self.fence.broker, topic_id, rows_max)


def _read(connection: apsw.Connection, references: Sequence[Reference]) -> list[Page]:
    if not references:
        return []
    pages: list[Page] = []
    row = _row_of(references[0])
    blob = connection.blob_open("main", "journal", "pages", row, False)
    try:
        for reference in references:
            if _row_of(reference) != row:
                row = _row_of(reference)
                blob.reopen(row)
            pages.append(frames.verify(_part(blob, reference), reference))
    finally:
        blob.close(True)
    return pages


def _row_of(reference: Reference) -> int:
    return journal_rows.position(reference.broker, reference.sequence)


def _part(blob: apsw.Blob, reference: Reference) -> bytes:
    """The bytes of a reference, no more: SQLite reads only the pages of the file that hold these
    bytes.
    """
    start, length = reference.position, reference.length
    if start < 0 or length < 0 or start + length > blob.length():
        raise Damaged(f"journal row {reference.sequence} has {blob.length()} bytes of pages, and not {length} from {start} on")
    blob.seek(start)
    return blob.read(length)
