"""Rows as they came from the broker, and the columns that are made of them on demand.

A page is one answer of a fetch: the batch's own bytes and, beside them, what the broker knows about
its rows (offsets as runs, producers as origins, the time of arrival). The columns that the batch
has are views into the answer's bytes; the others are made with vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring import errors
from bowstring.client import page_rows
from bowstring.client.fetch_credit import FetchCredit
from bowstring.messages import encoding, ids, schema
from bowstring.messages.columns import integers
from bowstring.wire.generated import bowstring_pb2 as pb

_MOMENT = pa.timestamp("us", "UTC")
_NAME = pa.dictionary(pa.int32(), pa.utf8())

NEVER: Final = 1 << 61
"""A moment that never comes, and a span that never ends."""

COLUMNS: Final = pa.schema(
    [
        pa.field("topic", _NAME, nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("attributes", pa.map_(pa.utf8(), pa.utf8())),
        pa.field("created", _MOMENT, nullable=False),
        pa.field("arrived", _MOMENT, nullable=False),
        pa.field("due", _MOMENT),
        pa.field("expires", _MOMENT),
        pa.field("producer_group", _NAME, nullable=False),
    ]
)
"""The columns of a reader's batch."""
LEASED_COLUMNS: Final = pa.schema(
    [
        *COLUMNS,
        pa.field("retry_count", pa.int32(), nullable=False),
        pa.field("age", pa.duration("us"), nullable=False),
        pa.field("lease_end", _MOMENT, nullable=False),
    ]
)
"""The columns of a consumer's batch."""


class ReaderSelection(NamedTuple):
    """The columns that a reader wants, and of which messages."""

    names: frozenset[str] | None = None
    """The columns; None for all."""
    where: str = ""

    @property
    def mask(self) -> int | None:
        """The wanted columns that travel, and those that `freshness` always needs."""
        if self.names is None:
            return None
        return schema.mask_of(column.name for column in schema.COLUMNS if column.name in self.names) | schema.DUE | schema.EXPIRES


EVERYTHING: Final = ReaderSelection()


class FetchedPage:
    """The rows of one answer."""

    known: ClassVar[pa.Schema] = COLUMNS
    """The columns that it can have."""

    def __init__(self, topic: str, header: pb.FetchAnswer, data: memoryview | None, selection: ReaderSelection = EVERYTHING) -> None:
        self.topic = topic
        self.header = header
        self.partition = header.partition
        self.rows = header.rows
        self.size = 0 if data is None else len(data)
        self.next_offset = header.next_offset
        """The offset behind it."""
        self.start = header.runs[0].offset if len(header.runs) == 1 else 0
        """The first offset, if the others follow it one by one; else 0."""
        self.sifted = 0
        """The version of the deletions that its rows were checked against."""
        self.credit: FetchCredit | None = None
        """The credit that it counts against."""
        self.scattered = page_rows.scattered(header) if header.HasField("scattered") else None
        """Its runs, if they came as arrays."""
        self._data = data
        self._selected = selection.names
        self._columns: dict[str, pa.Array] = {}
        self._lists: dict[str, list[Any]] = {}

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """What the producer sent, over the bytes of the answer."""
        if self._data is None:
            return pa.RecordBatch.from_arrays([], names=[])
        return encoding.decode(self.header.columns, self._data)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The rows' offsets."""
        if self.scattered is not None:
            return self.scattered.offsets()
        runs = [np.arange(run.offset, run.offset + run.rows, dtype=np.int64) for run in self.header.runs]
        return runs[0] if len(runs) == 1 else np.concatenate(runs)

    @cached_property
    def places(self) -> list[int]:
        """The same as Python's numbers, for those who ask message by message: an array makes one of its
        own kind first, each time."""
        return self.offsets.tolist()

    # ---- how long its rows may be handed out

    @cached_property
    def ages(self) -> npt.NDArray[np.int64]:
        """The moment from which the age of each row counts: its arrival, or its due time if that is
        later."""
        arrived = _moments(self.any_column("arrived"), 0)
        return np.maximum(arrived, _moments(self.any_column("due"), 0)) if self.header.columns & schema.DUE else arrived

    @cached_property
    def ages_from(self) -> int:
        """The first of `ages`. Arrival never falls within a partition."""
        if self.header.columns & schema.DUE:
            return int(self.ages.min())
        if self.scattered is not None:
            return int(self.scattered.arrived[0])
        return self.header.runs[0].arrived or self.header.arrived

    @cached_property
    def expiries(self) -> npt.NDArray[np.int64]:
        """The moment at which each row expires."""
        return _moments(self.any_column("expires"), NEVER) if self.header.columns & schema.EXPIRES else np.full(self.rows, NEVER)

    @cached_property
    def expires_from(self) -> int:
        """The first of `expiries`."""
        return int(self.expiries.min()) if self.header.columns & schema.EXPIRES else NEVER

    def has(self, name: str) -> bool:
        """Whether the reader has this column."""
        return self._selected is None or name in self._selected

    def column(self, name: str) -> pa.Array:
        """A column over all rows of the page."""
        if not self.has(name):
            raise errors.InvalidArgument(f"this reader leaves {name!r} out.", hint="Name it in columns=, too, or omit columns=.")
        return self.any_column(name)

    def any_column(self, name: str) -> pa.Array:
        """A column that the page knows, even if the reader does not have it."""
        found = self._columns.get(name)
        if found is None:
            make = _MADE.get(name)
            if make is not None:
                found = make(self)
            elif name in self.batch.schema.names:
                found = self.batch.column(name)
            else:
                found = pa.nulls(self.rows, COLUMNS.field(name).type)
            self._columns[name] = found
        return found

    def entries(self, name: str) -> list[Any]:
        """A column as a list of Python objects, made once; times and spans as microseconds."""
        found = self._lists.get(name)
        if found is None:
            column = self.column(name)
            if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
                column = column.cast(pa.int64())
            elif pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            found = self._lists[name] = column.to_pylist()
        return found


class Remainder(FetchedPage):
    """The rows of a page that are left."""

    def __init__(self, whole: FetchedPage, rows: npt.NDArray[np.int64], next_offset: int) -> None:
        super().__init__(whole.topic, whole.header, None)
        self._whole = whole
        self._kept = rows
        self.start = 0
        self._selected = whole._selected
        self.rows = len(rows)
        self.size = whole.size * self.rows // whole.rows
        self.next_offset = next_offset
        self.credit = whole.credit

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The rows' offsets."""
        return self._whole.offsets[self._kept]

    @cached_property
    def ages(self) -> npt.NDArray[np.int64]:
        """The moment from which the age of each row counts."""
        return self._whole.ages[self._kept]

    @cached_property
    def ages_from(self) -> int:
        """The first of `ages`."""
        return int(self.ages.min())

    @cached_property
    def expiries(self) -> npt.NDArray[np.int64]:
        """The moment at which each row expires."""
        return self._whole.expiries[self._kept]

    def any_column(self, name: str) -> pa.Array:
        """A column of these rows."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._whole.any_column(name).take(integers(self._kept))
        return found


class Chunk(NamedTuple):
    """Consecutive rows of a page."""

    page: FetchedPage
    first: int
    rows: int

    def column(self, name: str) -> pa.Array:
        """A column over these rows, without copying."""
        column = self.page.column(name)
        return column if self.rows == self.page.rows else column.slice(self.first, self.rows)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The rows' offsets."""
        return self.page.offsets[self.first : self.first + self.rows]

    @property
    def size(self) -> int:
        """Their share of the page's bytes."""
        return self.page.size * self.rows // self.page.rows

    @property
    def next_offset(self) -> int:
        """The offset behind it."""
        end = self.first + self.rows
        return self.page.next_offset if end == self.page.rows else int(self.page.offsets[end])


def _moments(column: pa.Array, otherwise: int) -> npt.NDArray[np.int64]:
    return pc.fill_null(column.cast(pa.int64()), otherwise).to_numpy(zero_copy_only=False)


def _topic(page: FetchedPage) -> pa.Array:
    return pa.DictionaryArray.from_arrays(integers(np.zeros(page.rows, np.int32)), pa.array([page.topic]))


def _partition(page: FetchedPage) -> pa.Array:
    return integers(np.full(page.rows, page.partition, np.int32))


def _id(page: FetchedPage) -> pa.Array:
    has_ids = bool(page.header.columns & schema.ID)
    given = page.batch.column("id") if has_ids else None
    if given is not None and not given.null_count:
        return given
    made, end = list[pa.Array](), 0
    for origin in page.header.origins:
        start, end = end, end + origin.rows
        name = origin.producer, origin.number, page.partition
        made.append(ids.column(*name, page.offsets[start:end] - (int(page.offsets[start]) - origin.first_row)))
    generated = made[0] if len(made) == 1 else pa.concat_arrays(made)
    return generated if given is None else pc.coalesce(given, generated)


def _created(page: FetchedPage) -> pa.Array:
    """The time of creation. A producer of another kit may omit it; the arrival is the best guess
    then."""
    if not page.header.columns & schema.CREATED:
        return _arrived(page)
    given = page.batch.column("created")
    return pc.coalesce(given, _arrived(page)) if given.null_count else given


def _arrived(page: FetchedPage) -> pa.Array:
    """The time of arrival. Rows of a page may have arrived at different times, if the broker has
    joined small pages."""
    if page.scattered is not None:
        return integers(page.scattered.moments()).view(_MOMENT)
    runs = page.header.runs
    moments = [run.arrived or page.header.arrived for run in runs]
    return integers(np.repeat(np.array(moments, np.int64), [run.rows for run in runs])).view(_MOMENT)


def _producer_group(page: FetchedPage) -> pa.Array:
    names = list(dict.fromkeys(origin.group for origin in page.header.origins))
    numbers = np.array([names.index(origin.group) for origin in page.header.origins], np.int32)
    counts = [origin.rows for origin in page.header.origins]
    return pa.DictionaryArray.from_arrays(integers(np.repeat(numbers, counts)), pa.array(names, pa.utf8()))


_MADE: Final[dict[str, Callable[[FetchedPage], pa.Array]]] = {
    "topic": _topic,
    "partition": _partition,
    "offset": lambda page: integers(page.offsets),
    "id": _id,
    "created": _created,
    "arrived": _arrived,
    "producer_group": _producer_group,
}
