"""Extents, snapshots and chunks in SQLite: what an edit does inside its transaction, and how they are read.

These are plain functions on the catalog's connection; `sqlite.SqliteCatalog` runs them on its worker, inside its transactions, and
understands what SQLite raises. An edit is prepared (values, checksums) before it is handed to the worker, because flushes wait behind
it there: what is left are a few statements per row, each a look-up in a b-tree.

Measured (2 KiB pages; processor time, best of a few on a busy machine; each edit has one sync besides): adding 100 extents of one
segment each 1.5 ms, dropping them 1.4, storing 100 snapshots of 300 bytes 0.3. Trimming 500 rows with 16 KiB of inlined pages takes 5.2
to 6.7 ms and 100 of them 1.2 to 1.7, because SQLite goes through the chain of pages that such a row has; rows without take 1 µs. So a
step of 2 ms is 100 extents, or 100 rows with pages, or 1,000 without. With 10,000 partitions of 10 extents each, `sealed` takes 70 ms,
`usage` 25, `snapshots` 35, `chunks` as long.

An extent that is damaged can be dropped and forgotten all the same: that needs only its key. Which segments it used is then not known,
and their rows are found by going through the whole table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import apsw

from bowstring.catalog.extent_rows import (
    Values,
    chunk_values,
    extent_values,
    place,
    snapshot_values,
    use_values,
    verified_chunks,
    verified_extent,
    verified_snapshots,
)
from bowstring.catalog.sqlite.queries import queries
from bowstring.ports.catalog import Chunk, Edit, Extent, ExtentKey, Sealed, Snapshot
from bowstring.ports.failures import Damaged


class Prepared(NamedTuple):
    """An edit as rows. The uses of the extents that are added stand beside them."""

    drop: list[Values]
    add: list[Values]
    uses: list[Values]
    snapshots: list[Values]
    chunks: list[Values]
    chunks_gone: list[Values]
    trim: int


def prepare(edit: Edit) -> Prepared:
    """Everything about an edit that needs no database. Raises Damaged for an extent that cannot be."""
    return Prepared(
        drop=[key._asdict() for key in edit.drop],
        add=[extent_values(extent) for extent in edit.add],
        uses=[use for extent in edit.add for use in use_values(extent)],
        snapshots=[snapshot_values(snapshot) for snapshot in edit.snapshots],
        chunks=[chunk_values(chunk) for chunk in edit.chunks if chunk.bitmaps],
        chunks_gone=[chunk._asdict() for chunk in edit.chunks if not chunk.bitmaps],
        trim=edit.trim,
    )


def apply(connection: apsw.Connection, edit: Prepared) -> None:
    """The whole edit, inside the caller's transaction. Raises Damaged, and then the transaction must not be committed."""
    for key in edit.drop:
        _drop(connection, key)
    for extent in edit.add:
        before = _run(connection, "end_before", extent)
        if before and before[0][0] > extent["first_offset"]:
            raise Damaged(f"{_place(extent)} cannot be added: up to {extent['end_offset']} it overlaps one that ends at {before[0][0]}")
        _run(connection, "add_extent", extent)
    _run_all(connection, "add_use", edit.uses)
    for snapshot in edit.snapshots:
        _run(connection, "store_snapshot", snapshot)
        if connection.changes() == 0:
            topic, partition, sequence = snapshot["topic"], snapshot["partition"], snapshot["sequence"]
            raise Damaged(f"the snapshot of topic {topic}, partition {partition} as of sequence {sequence} is older than the stored one")
    _run_all(connection, "store_chunk", edit.chunks)
    _run_all(connection, "drop_chunk", edit.chunks_gone)
    if edit.trim > 0:
        _run(connection, "trim", {"trim": edit.trim})
        _run(connection, "trim_tombstones", {})


def forget(connection: apsw.Connection, topic: int, rows_max: int) -> bool:
    """Removes up to so many rows of a topic, inside the caller's transaction; says whether some are left."""
    found = _run(connection, "extents_of_topic", {"topic": topic, "rows_max": rows_max})
    for row in found:
        _drop(connection, {"topic": row[0], "partition": row[1], "first_offset": row[2]})
    more = rows_max - len(found)
    _run(connection, "forget_snapshots", {"topic": topic, "rows_max": more})
    more -= connection.changes()
    _run(connection, "forget_chunks", {"topic": topic, "rows_max": more})
    return bool(_run(connection, "anything_left", {"topic": topic})[0][0])


def extents(connection: apsw.Connection, topic: int, partition: int, offset: int, rows_max: int) -> list[Extent]:
    """The extents that end after the offset. The first row may be one that does not: it is verified before it is passed over."""
    where: Values = {"topic": topic, "partition": partition, "offset": offset, "rows_max": rows_max + 1}
    found = [verified_extent(row) for row in _run(connection, "extents", where)]
    return [extent for extent in found if extent.end_offset > offset][:rows_max]


def extents_in(connection: apsw.Connection, segment: int, after: ExtentKey, rows_max: int) -> list[Extent]:
    """The extents that use a segment, and say so themselves."""
    found: list[Extent] = []
    where: Values = {**after._asdict(), "segment": segment, "rows_max": rows_max}
    for topic, partition, first_offset, *row in _run(connection, "extents_in", where):
        if row[0] is None:
            raise Damaged(f"{place(topic, partition, first_offset)} is not there, but should use segment {segment}")
        extent = verified_extent(row)
        if segment not in dict(extent.uses):
            raise Damaged(f"{place(topic, partition, first_offset)} should use segment {segment}, but does not")
        found.append(extent)
    return found


def sealed(connection: apsw.Connection) -> list[Sealed]:
    found = _run(connection, "sealed", {})
    if any(row[-1] for row in found):
        raise _changed(_run(connection, "extent_that_does_not_add_up", {}))
    return [Sealed(*row[:4]) for row in found]


def usage(connection: apsw.Connection) -> dict[int, int]:
    found = _run(connection, "usage", {})
    if any(row[-1] for row in found):
        raise _changed(_run(connection, "use_that_does_not_add_up", {}))
    return {segment: used for segment, used, _ in found}


def snapshots(connection: apsw.Connection) -> list[Snapshot]:
    return verified_snapshots(connection.execute(queries()["snapshots"]))


def chunks(connection: apsw.Connection) -> list[Chunk]:
    return verified_chunks(connection.execute(queries()["chunks"]))


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


def _changed(found: list[Any]) -> Damaged:
    return Damaged(f"{place(*found[0])} does not verify: its numbers do not add up")


def _place(key: Values) -> str:
    return place(key["topic"], key["partition"], key["first_offset"])


def _run(connection: apsw.Connection, query: str, values: Values) -> list[Any]:
    return connection.execute(queries()[query], values).fetchall()


def _run_all(connection: apsw.Connection, query: str, values: list[Values]) -> None:
    connection.executemany(queries()[query], values)
