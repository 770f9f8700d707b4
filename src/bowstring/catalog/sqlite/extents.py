"""Extents and states in SQLite: carries out edits inside a transaction, and reads rows.

These are plain functions on the catalog's connection; `journal.SqliteJournal` runs them on the
worker, inside its transactions. An edit is prepared (values, checksums) before it is handed to the
worker, because flushes wait behind it there: what is left are a few statements per row, each a
look-up in a b-tree.

Measured (2 KiB pages; processor time, best of a few on a busy machine; each edit has one sync
besides): adding 100 extents of one segment each 1.5 ms, dropping them 1.4, storing 100 states of
300 bytes 0.3. Trimming 500 rows with 16 KiB of inlined pages takes 5.2 to 6.7 ms and 100 of them
1.2 to 1.7, because SQLite goes through the chain of pages that such a row has; rows without take 1
µs. So a step of 2 ms is 100 extents, or 100 rows with pages, or 1,000 without. With 10,000
partitions of 10 extents each, `sealed` takes 70 ms, `usage` 25, `states` 35.

An extent that is damaged can be dropped and forgotten all the same: that needs only its key. Which
segments it used is then not known, and their rows are found by going through the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import apsw

from bowstring.catalog import state_rows
from bowstring.catalog.extent_rows import Values, extent_values, place, use_values, verified_extent
from bowstring.catalog.sqlite.queries import queries
from bowstring.ports.extents import Extent, ExtentKey, Sealed, StateRow
from bowstring.ports.failures import Damaged, Fenced
from bowstring.ports.journal import Edit


class Prepared(NamedTuple):
    """An edit as rows. The uses of the extents that are added stand beside them."""

    partitions: set[tuple[int, int]]
    """Those that are changed."""
    drop: list[Values]
    add: list[Values]
    uses: list[Values]
    states: list[Values]
    states_gone: list[Values]
    trim: int
    """As a position."""


def prepare(edit: Edit, first_position: int) -> Prepared:
    """Everything about an edit that needs no database. Raises Damaged for an extent that cannot be."""
    return Prepared(
        partitions={row[:2] for rows in (edit.drop, edit.add, edit.states) for row in rows},
        drop=[key._asdict() for key in edit.drop],
        add=[extent_values(extent) for extent in edit.add],
        uses=[use for extent in edit.add for use in use_values(extent)],
        states=[state_rows.state_values(row) for row in edit.states if row.state],
        states_gone=[row._asdict() for row in edit.states if not row.state],
        trim=first_position + edit.trim if edit.trim > 0 else 0,
    )


def apply(connection: apsw.Connection, edit: Prepared, broker: int, span: Mapping[str, int]) -> None:
    """The whole edit, inside the caller's transaction. `span` are the positions of the broker's
    journal. Raises Damaged or Fenced, and then the transaction must not be committed.
    """
    for topic, partition in edit.partitions:
        owner = _run(connection, "owner", {"topic": topic, "partition": partition})
        if not owner or owner[0][0] != broker:
            raise Fenced(f"broker {broker} does not own partition {partition} of topic {topic}")
    change(connection, edit)
    if edit.trim > 0:
        _run(connection, "trim", {"trim": min(edit.trim, span["last"]), **span})
        for (topic,) in _run(connection, "tombstones_to_go", {}):
            for query in ("drop_partitions", "drop_tombstone", "drop_topic"):
                _run(connection, query, {"topic": topic})


def change(connection: apsw.Connection, edit: Prepared) -> None:
    """Writes the extents and states of an edit."""
    for key in edit.drop:
        _drop(connection, key)
    for extent in edit.add:
        before = _run(connection, "end_before", extent)
        if before and before[0][0] > extent["first_offset"]:
            raise Damaged(f"{_place(extent)} cannot be added: up to {extent['end_offset']} it overlaps one that ends at {before[0][0]}")
        _run(connection, "add_extent", extent)
    _run_all(connection, "add_use", edit.uses)
    for row in edit.states:
        _run(connection, "store_state", row)
        if connection.changes() == 0:
            raise _older(row)
    for row in edit.states_gone:
        _run(connection, "drop_state", row)
        if connection.changes() == 0 and _run(connection, "state", row):
            raise _older(row)


def forget(connection: apsw.Connection, broker: int, topic: int, rows_max: int) -> bool:
    """Removes up to so many rows of a topic's partitions that the broker owns, inside the caller's
    transaction; says whether some are left.
    """
    of: Values = {"topic": topic, "broker": broker}
    found = _run(connection, "extents_of_topic", {**of, "rows_max": rows_max})
    for row in found:
        _drop(connection, {"topic": row[0], "partition": row[1], "first_offset": row[2]})
    _run(connection, "forget_states", {**of, "rows_max": rows_max - len(found)})
    return bool(_run(connection, "anything_left", of)[0][0])


def extents(connection: apsw.Connection, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
    """The extents that end after the offset. The first row may be one that does not: it is verified
    before it is passed over.
    """
    where: Values = {"topic": topic, "partition": partition, "offset": offset, "rows_max": rows_max + 1}
    found = [verified_extent(row) for row in _run(connection, "extents", where)]
    return [extent for extent in found if extent.end_offset > offset][:rows_max]


def extents_in(connection: apsw.Connection, broker: int, segment: int, after: ExtentKey, rows_max: int) -> list[Extent]:
    """The extents that use a segment, and say so themselves."""
    found: list[Extent] = []
    where: Values = {**after._asdict(), "broker": broker, "segment": segment, "rows_max": rows_max}
    for topic, partition, first_offset, *row in _run(connection, "extents_in", where):
        if row[0] is None:
            raise Damaged(f"{place(topic, partition, first_offset)} is not there, but should use segment {segment}")
        extent = verified_extent(row)
        if segment not in dict(extent.uses):
            raise Damaged(f"{place(topic, partition, first_offset)} should use segment {segment}, but does not")
        found.append(extent)
    return found


def sealed(connection: apsw.Connection, broker: int) -> list[Sealed]:
    found = _run(connection, "sealed", {"broker": broker})
    if any(wrong for *_, wrong, _ in found):
        raise _changed(_run(connection, "extent_that_does_not_add_up", {}))
    return [Sealed(*row[:-2]) for row in found if row[-1] == broker]


def usage(connection: apsw.Connection, broker: int) -> dict[int, int]:
    found = _run(connection, "usage", {"broker": broker})
    if any(wrong for *_, wrong in found):
        raise _changed(_run(connection, "use_that_does_not_add_up", {}))
    return {segment: used for segment, used, _ in found if used is not None}


def states(connection: apsw.Connection, broker: int) -> list[StateRow]:
    return state_rows.verified_states(connection.execute(queries()["states"], {"broker": broker}))


def _drop(connection: apsw.Connection, key: Values) -> None:
    found = _run(connection, "extent", key)
    if not found:
        raise Damaged(f"{_place(key)} cannot be dropped: it is not there")
    _run(connection, "drop_extent", key)
    try:
        uses = verified_extent(found[0]).uses
    except Damaged:
        _run(connection, "drop_uses", key)
    else:
        _run_all(connection, "drop_use", [{**key, "segment": segment} for segment, _ in uses])


def _older(row: Values) -> Damaged:
    name = state_rows.name(row["topic"], row["partition"], row["machine"], row["part"])
    return Damaged(f"{name} as of sequence {row['sequence']} is older than the stored one")


def _changed(found: list[Any]) -> Damaged:
    return Damaged(f"{place(*found[0])} does not verify: its numbers do not add up")


def _place(key: Values) -> str:
    return place(key["topic"], key["partition"], key["first_offset"])


def _run(connection: apsw.Connection, query: str, values: Values) -> list[Any]:
    return connection.execute(queries()[query], values).fetchall()


def _run_all(connection: apsw.Connection, query: str, values: list[Values]) -> None:
    connection.executemany(queries()[query], values)
