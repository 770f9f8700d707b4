"""Dead letters: the rows of a page as they go to the companion topic.

A dead letter keeps its key, value, attributes, the time of its creation, its id and its owner. It
loses its due time and its expiry: it waits for people. Attributes that begin with `bowstring-` tell why
it is dead, where it came from, and of its last delivery. A dead letter that was redriven and has died
again keeps the place where it came from at first.

Everything is columns: the Python code goes by pages, origins and groups of rows that died alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bowstring.broker.reading.page_reader import arrivals
from bowstring.core.condemned import LastDelivery
from bowstring.core.pages import Origin, PageEntry, PageHeader, decode_header
from bowstring.core.row_set import RowSet
from bowstring.messages import encoding, ids
from bowstring.ports.store import Page

PRODUCER: Final = b"bowstring-letter"
"""Who writes dead letters."""
SOURCE: Final = ("bowstring-topic", "bowstring-partition", "bowstring-offset", "bowstring-subscription")
"""Where a letter came from."""
DEATH: Final = ("bowstring-reason", "bowstring-retry-count", "bowstring-delivered", "bowstring-consumer", "bowstring-ended")
"""How it died."""
_MOMENT = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Deaths(NamedTuple):
    """Why rows are dead letters, in the order of their offsets."""

    offsets: NDArray[np.int64]
    groups: Sequence[LastDelivery]
    group_of: NDArray[np.int64]
    """Of each row."""
    retry_counts: NDArray[np.int32]


class Letters(NamedTuple):
    """Dead letters, ready to be stored."""

    encoded: encoding.Encoded
    ids: pa.Array
    owners: tuple[tuple[int, str], ...]
    """Runs of rows, and the producer group that each belongs to."""


class DyingRows(NamedTuple):
    """Condemned rows whose pages were read."""

    letters: RowSet
    """These get a dead letter."""
    damaged: RowSet
    """These cannot be read."""
    others: RowSet
    """These get none for another reason."""

    @property
    def all(self) -> RowSet:
        """All that were reached."""
        return RowSet.union(self)


class LetterSource(NamedTuple):
    """The place that letters came from."""

    topic: str
    partition: int
    subscription: str
    is_lane: bool
    """They are dead letters already: their attributes tell the place."""


def letters(source: LetterSource, deaths: Deaths, entries: Sequence[PageEntry], pages: Sequence[Page]) -> Letters:
    """The dead letters of rows that these pages have, all of them."""
    batches: list[pa.RecordBatch] = []
    owners: list[tuple[int, str]] = []
    for entry, page in zip(entries, pages, strict=True):
        first, end = np.searchsorted(deaths.offsets, (entry.first_offset, entry.end)).tolist()
        if first == end:
            continue
        header = decode_header(page.header)
        rows = deaths.offsets[first:end] - entry.first_offset
        died = Deaths(deaths.offsets[first:end], deaths.groups, deaths.group_of[first:end], deaths.retry_counts[first:end])
        batches.append(_of_page(source, died, entry, header, encoding.decode(header.columns, page.body), rows))
        owners += _owners(header.origins, rows)
    batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return Letters(encoding.rewrite(batch), batch.column("id"), _merged(owners))


def deaths_of(rows: RowSet, groups: Sequence[tuple[LastDelivery, RowSet]], retry_counts: NDArray[np.int32]) -> Deaths:
    """Rows with the groups that they are in."""
    offsets = rows.offsets()
    group_of = np.zeros(len(offsets), np.int64)
    for number, (_, some) in enumerate(groups):
        group_of[np.searchsorted(offsets, some.offsets())] = number
    return Deaths(offsets, [last for last, _ in groups], group_of, retry_counts)


def _of_page(
    source: LetterSource, deaths: Deaths, entry: PageEntry, header: PageHeader, batch: pa.RecordBatch, rows: NDArray[np.int64]
) -> pa.RecordBatch:
    chosen, names = pa.array(rows), batch.schema.names
    nothing = pa.nulls(len(rows), pa.binary())
    created = pa.array(arrivals(header, entry)[rows]).view(_MOMENT)
    if "created" in names:
        given = batch.column("created").take(chosen)
        created = given.fill_null(0) if not given.null_count else _coalesced(given, created)
    return pa.RecordBatch.from_arrays(
        [
            batch.column("key").take(chosen) if "key" in names else nothing,
            batch.column("value").take(chosen) if "value" in names else nothing,
            _attributes(batch.column("attributes").take(chosen) if "attributes" in names else None, _told(source, deaths)),
            created,
            (batch.column("id") if "id" in names else _generated(header)).take(chosen),
        ],
        names=["key", "value", "attributes", "created", "id"],
    )


def _coalesced(given: pa.Array, otherwise: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.coalesce(given, otherwise)


def _generated(header: PageHeader) -> pa.Array:
    """The ids that kits make of the rows of a page."""
    rows = [np.arange(one.first_row, one.first_row + one.rows, dtype=np.int64) for one in header.origins]
    made = [ids.column(one.producer, one.number, header.partition, some) for one, some in zip(header.origins, rows, strict=True)]
    return made[0] if len(made) == 1 else pa.concat_arrays(made)


# Attributes


def _told(source: LetterSource, deaths: Deaths) -> dict[str, pa.Array]:
    """The attributes that letters get, each a column of text; null where a row does not have it."""
    rows = len(deaths.offsets)
    told: dict[str, pa.Array] = {}
    if not source.is_lane:
        told |= {
            "bowstring-topic": pa.repeat(source.topic, rows),
            "bowstring-partition": pa.repeat(str(source.partition), rows),
            "bowstring-offset": pa.array(deaths.offsets).cast(pa.utf8()),
            "bowstring-subscription": pa.repeat(source.subscription, rows),
        }
    groups = pa.array(deaths.group_of)
    told |= {
        "bowstring-reason": pa.array([last.reason for last in deaths.groups], pa.utf8()).take(groups),
        "bowstring-retry-count": pa.array(deaths.retry_counts).cast(pa.utf8()),
        "bowstring-delivered": pa.array([_moment(last.delivered) for last in deaths.groups], pa.utf8()).take(groups),
        "bowstring-consumer": pa.array([last.consumer or None for last in deaths.groups], pa.utf8()).take(groups),
        "bowstring-ended": pa.array([_moment(last.ended) for last in deaths.groups], pa.utf8()).take(groups),
    }
    return told


def _moment(microseconds: int) -> str | None:
    """As JSON has moments; None for none."""
    return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if microseconds else None


def _attributes(given: pa.MapArray | None, told: dict[str, pa.Array]) -> pa.MapArray:
    """The attributes that rows have, without those that it replaces, and these behind them."""
    rows, names = len(next(iter(told.values()))), list(told)
    if given is None:
        counts, keys, items = np.zeros(rows, np.int64), pa.array([], pa.utf8()), pa.array([], pa.utf8())
    else:
        counts, keys, items = _without(given, names)
    old, new = len(keys), len(names)
    row_of = np.repeat(np.arange(rows), counts)
    ends = np.cumsum(counts + new)
    key_at, item_at = np.empty(old + rows * new, np.int64), np.empty(old + rows * new, np.int64)
    places = np.arange(old) + row_of * new
    key_at[places] = item_at[places] = np.arange(old)
    for number in range(new):
        places = ends - new + number
        key_at[places], item_at[places] = old + number, old + number * rows + np.arange(rows)
    all_keys = pa.concat_arrays([keys, pa.array(names, pa.utf8())]).take(pa.array(key_at))
    all_items = pa.concat_arrays([items, *told.values()]).take(pa.array(item_at))
    offsets = np.concatenate(([0], ends))
    there = np.asarray(all_items.is_valid())
    if not there.all():
        offsets = np.concatenate(([0], np.cumsum(there)))[offsets]
        all_keys, all_items = all_keys.filter(pa.array(there)), all_items.filter(pa.array(there))
    return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), all_keys, all_items)


def _without(given: pa.MapArray, names: Sequence[str]) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
    """How many attributes each row has, and all of them one behind the other, but for these names."""
    import pyarrow.compute as pc

    offsets = np.asarray(given.offsets).astype(np.int64)
    keys, items = given.keys[offsets[0] : offsets[-1]], given.items[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    kept = ~np.asarray(pc.is_in(keys, value_set=pa.array(names, pa.utf8())))
    if not kept.all():
        offsets = np.concatenate(([0], np.cumsum(kept)))[offsets]
        keys, items = keys.filter(pa.array(kept)), items.filter(pa.array(kept))
    return np.diff(offsets), keys, items


# Owners


def _owners(origins: Sequence[Origin], rows: NDArray[np.int64]) -> list[tuple[int, str]]:
    """Runs of the rows of a page by their producer group."""
    if len({origin.group for origin in origins}) == 1:
        return [(len(rows), origins[0].group)]
    ends = np.cumsum([origin.rows for origin in origins])
    numbers = np.searchsorted(ends, rows, side="right")
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1, [len(rows)]))
    return [(int(end - first), origins[int(numbers[first])].group) for first, end in itertools.pairwise(firsts)]


def _merged(owners: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Neighbours of one group as one run."""
    merged: list[tuple[int, str]] = []
    for rows, group in owners:
        if merged and merged[-1][1] == group:
            rows += merged.pop()[0]
        merged.append((rows, group))
    return tuple(merged)
