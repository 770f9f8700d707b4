"""Messages as Arrow columns, and as objects when touched.

A batch is rows of one or several pages. Columns are made on first use, at most once. If the rows
are of one page, columns that the producer sent are views into the bytes from the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain, repeat
from typing import Any, ClassVar, TypeVar, overload

import pyarrow as pa

from bowstring import errors
from bowstring.client import kept_page
from bowstring.client.message import Message
from bowstring.client.pages import COLUMNS, Chunk

M = TypeVar("M", bound=Message)

HTML_ROWS = 10
HTML_CHARACTERS = 60


class Batch:
    """Messages in the order in which they were read; those of one partition by offset. It behaves
    like a sequence but is not one by its type: libraries would take it for a list of rows, and not
    ask for its columns. A pickled batch is an Arrow stream.
    """

    __slots__ = ("_chunks", "_columns", "_names", "_rows")

    _known: ClassVar[pa.Schema] = COLUMNS
    _message: ClassVar[type[Message]] = Message

    def __init__(self, chunks: Sequence[Chunk], names: tuple[str, ...] | None = None) -> None:
        self._chunks = chunks
        self._names = names or tuple(self._known.names)
        self._rows = sum(chunk.rows for chunk in chunks)
        self._columns: dict[str, pa.Array] = {}

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(messages(chunk, self._message) for chunk in self._chunks)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        """The message of a row, or a list of them."""
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(self._rows))]
        row = index + self._rows if index < 0 else index
        if 0 <= row < self._rows:
            for chunk in self._chunks:
                if row < chunk.rows:
                    at = chunk.first + row
                    value = chunk.page.column("value")[at].as_py() if chunk.page.has("value") else None
                    return self._message(value, chunk.page, at)
                row -= chunk.rows
        raise IndexError(f"this batch has {self._rows} rows, {index} was asked for")

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return pa.schema([self._known.field(name) for name in self._names])

    def column(self, name: str) -> pa.Array:
        """One column over all rows."""
        if name not in self._names:
            raise errors.InvalidArgument(f"this batch has no column {name!r}.", hint=f"Its columns are {', '.join(self._names)}.")
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._made(name)
        return found

    def _made(self, name: str) -> pa.Array:
        if len(self._chunks) == 1:
            return self._chunks[0].column(name)
        kind = self._known.field(name).type
        whole = pa.chunked_array([chunk.column(name) for chunk in self._chunks], kind)
        if pa.types.is_dictionary(kind):
            whole = whole.unify_dictionaries()
        return pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], kind)

    def to_arrow(self) -> pa.RecordBatch:
        """All columns."""
        return pa.RecordBatch.from_arrays([self.column(name) for name in self._names], schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hands the columns to any library that speaks Arrow: `pl.DataFrame(batch)`,
        `duckdb.sql("from batch")`, `pa.table(batch)`.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> Any:
        return _restored, (kept_page.keep(self._chunks, self._names), self._names)

    def __repr__(self) -> str:
        name, places = type(self).__name__, ", ".join(f"{chunk.page.topic}/{chunk.page.partition}" for chunk in self._chunks[:3])
        return f"{name}({self._rows} rows{' of ' + places if places else ''}{', …' if len(self._chunks) > 3 else ''})"

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self._names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(getattr(message, name))}</td>" for name in self._names) + "</tr>" for message in self[:HTML_ROWS]
        )
        more = f"<caption>{self._rows} rows, the first {HTML_ROWS} of them</caption>" if self._rows > HTML_ROWS else ""
        return f"<table>{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _restored(data: bytes, names: tuple[str, ...]) -> Batch:
    """A batch that was pickled or copied, as an Arrow stream."""
    return Batch(kept_page.kept(data, names), names)


def messages(chunk: Chunk, kind: type[M] = Message) -> Iterator[M]:
    """The messages of consecutive rows, as an iterator whose remaining length
    `operator.length_hint` tells.
    """
    values = chunk.column("value").to_pylist() if chunk.page.has("value") else repeat(None)
    return iter(list(map(kind, values, repeat(chunk.page), range(chunk.first, chunk.first + chunk.rows))))


def _shown(value: Any) -> str:
    text = "" if value is None else value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return escape(text if len(text) <= HTML_CHARACTERS else text[: HTML_CHARACTERS - 1] + "…")
