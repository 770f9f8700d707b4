"""Replaces damaged rows of a catalog, offline and in one transaction. Only `bowstring inspect
--repair` does this.

`inspection.rebuild` computes the new rows; this module adds their checksums and writes them. A row
of `segment_use` says nothing that extents do not say, so that table is simply written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from bowstring.catalog import journal_rows
from bowstring.catalog.extent_rows import use_values
from bowstring.catalog.sqlite import extents, file
from bowstring.catalog.sqlite.queries import queries
from bowstring.ports.extents import Extent, StateRow
from bowstring.ports.journal import Edit, Row


class Mend(NamedTuple):
    """The changes to make."""

    drop_extents: Sequence[tuple[Any, ...]] = ()
    """Keys, as they stand in the rows."""
    add_extents: Sequence[Extent] = ()
    states: Sequence[StateRow] = ()
    drop_states: Sequence[tuple[Any, ...]] = ()
    """Keys, as they stand in the rows."""
    rows: Sequence[tuple[int, Row]] = ()
    """Rows of brokers' journals; the inlined pages of one that is there stay with it."""
    uses: Sequence[Extent] | None = None
    """All extents, if the table of uses by segment has to be made anew."""

    def __bool__(self) -> bool:
        return any(self[:5]) or self.uses is not None


def mend(path: str, change: Mend) -> None:
    """All of it or nothing; durable when it returns. Raises what opening a catalog raises, and
    Damaged.
    """
    connection = file.connect(path)
    try:
        with file.transaction(connection):
            _apply(connection, change)
    finally:
        file.close(connection)


def _apply(connection: apsw.Connection, change: Mend) -> None:
    for key in change.drop_extents:
        connection.execute("DELETE FROM extent WHERE topic IS ? AND partition IS ? AND first_offset IS ?", key)
        connection.execute("DELETE FROM segment_use WHERE topic IS ? AND partition IS ? AND first_offset IS ?", key)
    for key in (*change.drop_states, *(row[:4] for row in change.states)):
        connection.execute("DELETE FROM state WHERE topic IS ? AND partition IS ? AND machine IS ? AND part IS ?", key)
    extents.change(connection, extents.prepare(Edit(add=change.add_extents, states=change.states), 0))
    for broker, row in change.rows:
        _put_row(connection, broker, row)
    if change.uses is not None:
        connection.execute("DELETE FROM segment_use")
        connection.executemany(queries()["add_use"], [use for extent in change.uses for use in use_values(extent)])


def _put_row(connection: apsw.Connection, broker: int, row: Row) -> None:
    position = journal_rows.position(broker, row.sequence)
    found: list[Any] = connection.execute("SELECT pages FROM journal WHERE position = ?", (position,)).fetchall()
    pages = found[0][0] if found and isinstance(found[0][0], bytes) else None
    crc = journal_rows.checksum(position, row.epoch, row.changes, len(pages or b""))
    connection.execute(
        "INSERT OR REPLACE INTO journal (position, epoch, crc, changes, pages) VALUES (?, ?, ?, ?, ?)",
        (position, row.epoch, crc, row.changes, pages),
    )
