"""Making columns: from Python lists, from one message, from Arrow arrays of the columns' own types
(`conversion` makes those).

Each way ends in a `Part`: nodes and buffers of one column, ready to be written. Whatever the input
was, a part has offsets that begin at 0, only the bytes of its own rows, no bytes under nulls, zeros
for null times, and a validity bitmap only with nulls, whose bits end with the last row.

The usual lists become buffers here and not in pyarrow: the first Python object that pyarrow converts
makes it import pandas, where that is installed, which takes a quarter of a second.

A null that stands alone becomes the part of a column of nulls, which the writer then leaves out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence, Sized
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors
from bowstring.messages import schema
from bowstring.messages.metadata import Bytes, Unjoined

Attributes: TypeAlias = Mapping[str, str]
Moments: TypeAlias = "int | Sequence[int | None] | npt.NDArray[np.int64]"

_TWO = struct.Struct("<ii")
_MOMENT = struct.Struct("<q")
DATA_MAX = 2**31 - 1
_WHOLE = {int, type(None)}
_NOTHING: Attributes = {}
_SHARED = 4  # rows per shared attributes object from which on it pays to turn each object into Arrow once
TEXT_HINT = "The names and values of attributes are text: {'country': 'CH'}."


class Part(NamedTuple):
    """A column in canonical layout: nodes as length, null count, …; buffers with their exact
    lengths.
    """

    nodes: tuple[int, ...]
    buffers: tuple[Bytes | Unjoined, ...]


# -- from one message

_NULL_TEXT = Part((1, 1), (b"\0", bytes(8), b""))
_NULL_MOMENT = Part((1, 1), (b"\0", bytes(8)))
_NULL_MAP = Part((1, 1, 0, 0, 0, 0, 0, 0), (b"\0", bytes(8), b"", b"", bytes(4), b"", b"", bytes(4), b""))


def text_of_one(name: str, rows: int, one: Sequence[bytes | str | None]) -> Part:
    """The column of one key, value or id."""
    _check_count(name, rows, one)
    value = one[0]
    if value is None:
        return _NULL_TEXT
    if type(value) is not bytes:
        value = _as_bytes(name, value)
    if len(value) > DATA_MAX:
        raise too_large(name)
    return Part((1, 0), (b"", _TWO.pack(0, len(value)), value))


def moment_of_one(name: str, rows: int, one: Moments) -> Part:
    """The column of one time."""
    if isinstance(one, int):
        moment = one
    else:
        _check_count(name, rows, one)
        moment = one[0]
    if moment is None:
        return _NULL_MOMENT
    try:
        return Part((1, 0), (b"", _MOMENT.pack(moment)))
    except struct.error:
        raise _not_moments(name, repr(moment)) from None


def attributes_of_one(rows: int, one: Sequence[Attributes | None]) -> Part:
    """The column of the attributes of one message."""
    _check_count("attributes", rows, one)
    attributes = one[0]
    if attributes is None:
        return _NULL_MAP
    try:
        names = [each.encode() for each in attributes]
        values = [each.encode() for each in attributes.values()]
    except (AttributeError, TypeError, UnicodeEncodeError) as error:
        raise not_text(error) from error
    count = len(names)
    return Part((1, 0, count, 0, count, 0, count, 0), (b"", _TWO.pack(0, count), b"", b"", *_joined(names), b"", *_joined(values)))


def _joined(texts: list[bytes]) -> tuple[bytes, bytes]:
    return struct.pack(f"<{len(texts) + 1}i", 0, *accumulate(map(len, texts))), b"".join(texts)


# -- from lists


def texts(name: str, rows: int, many: Sequence[bytes | str | None]) -> Part:
    """The column of many keys, values or ids."""
    _check_count(name, rows, many)
    try:
        lengths, data = _laid_out(many)
        if len(data) > DATA_MAX:
            raise too_large(name)
        return Part((rows, 0), (b"", _plain(_ends(lengths)), data))
    except KeyError:  # nulls, or a mixture
        pass
    except UnicodeEncodeError as error:
        raise _not_bytes(name, error) from error
    try:
        array = pa.array(many, pa.binary())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _not_bytes(name, error) from error
    return _text_part(_whole(name, array))


def unjoined(rows: int, values: Unjoined) -> Part:
    """The column of many values, without copying them."""
    if values.size > DATA_MAX:
        raise too_large("value")
    return Part((rows, 0), (b"", _plain(values.offsets.astype(np.int32)), values))


def ids(rows: int, many: Sequence[str]) -> Part:
    """The column of one or many ids, which must be text."""
    if not _all_text(many):
        raise errors.InvalidArgument("There is an id that is not text.", hint="Ids are str, in every row or in none.")
    return text_of_one("id", rows, many) if rows == 1 else texts("id", rows, many)


def moments(name: str, rows: int, many: Moments) -> Part:
    """The column of many times, or of one time for all rows."""
    try:
        if isinstance(many, int):
            return Part((rows, 0), (b"", _MOMENT.pack(many) * rows))
        _check_count(name, rows, many)
        if isinstance(many, np.ndarray):
            if many.dtype == np.int64:
                return Part((rows, 0), (b"", _plain(np.ascontiguousarray(many))))
        elif set(map(type, many)) <= _WHOLE:
            return _moments_of(rows, many)
        array = pa.array(many, pa.int64())
    except (pa.ArrowException, TypeError, OverflowError, struct.error) as error:
        raise _not_moments(name, error) from error
    return _moment_part(array)


def attributes(rows: int, many: Sequence[Attributes | None]) -> Part:
    """The column of many messages' attributes. If most rows share the same objects, each object is
    turned into Arrow once.
    """
    _check_count("attributes", rows, many)
    distinct, firsts, taken = np.unique(np.fromiter(map(id, many), np.int64, rows), return_index=True, return_inverse=True)
    if len(distinct) > rows // _SHARED:
        return _each_attributes(rows, many)
    maps = [many[first] for first in firsts.tolist()]
    given = np.fromiter((each is not None for each in maps), np.bool_, len(maps))
    offsets, names, values = _entries([_NOTHING if each is None else each for each in maps])
    array = pa.MapArray.from_arrays(integers(offsets), names, values)
    return _array_of_maps(array.take(integers(taken, given[taken])))


def _each_attributes(rows: int, many: Sequence[Attributes | None]) -> Part:
    offsets, names, values = _entries([_NOTHING if each is None else each for each in many])
    nulls = many.count(None)
    validity = _bitmap(np.fromiter((each is not None for each in many), np.bool_, rows)) if nulls else b""
    return _map_part(rows, nulls, validity, offsets, _text_part(names), _text_part(values))


def _entries(maps: list[Attributes]) -> tuple[npt.NDArray[np.int32], pa.Array, pa.Array]:
    """All names in one list, all values in another, and the offsets of each map."""
    try:
        names = list(chain.from_iterable(maps))
        values = list(chain.from_iterable([each.values() for each in maps]))
        if not (_all_text(names) and _all_text(values)):
            raise TypeError("one of them is of another type")
        name_array, value_array = _strings(names), _strings(values)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise not_text(error) from error
    offsets = np.zeros(len(maps) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, maps), np.int32, len(maps)), out=offsets[1:])
    return offsets, name_array, value_array


def _strings(texts: list[str]) -> pa.Array:
    lengths, data = _laid_out(texts) if texts else (np.zeros(0, np.int64), b"")
    if len(data) > DATA_MAX:
        raise too_large("attributes")
    return pa.Array.from_buffers(pa.utf8(), len(texts), [None, pa.py_buffer(_ends(lengths)), pa.py_buffer(data)])


def _laid_out(many: Sequence[Any]) -> tuple[npt.NDArray[np.int64], bytes]:
    """The lengths of texts or bytes, and all of these one behind the other. Raises KeyError if they
    are not all of one type.
    """
    lay_out = _LAYING_OUT[frozenset(map(type, many))]
    return lay_out(many)


def _lay_out_bytes(many: Sequence[bytes]) -> tuple[npt.NDArray[np.int64], bytes]:
    return np.fromiter(map(len, many), np.int64, len(many)), b"".join(many)


def _lay_out_texts(many: Sequence[str]) -> tuple[npt.NDArray[np.int64], bytes]:
    text = "".join(many)
    if not text.isascii():
        return _lay_out_bytes([each.encode() for each in many])
    return np.fromiter(map(len, many), np.int64, len(many)), text.encode()


_LAYING_OUT: dict[frozenset[type], Callable[[Sequence[Any]], tuple[npt.NDArray[np.int64], bytes]]] = {
    frozenset({bytes}): _lay_out_bytes,
    frozenset({str}): _lay_out_texts,
}


def _ends(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The offsets of buffers of these lengths, which have less than 2 GiB together."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _moments_of(rows: int, many: Sequence[int | None]) -> Part:
    nulls = many.count(None)
    if not nulls:
        return Part((rows, 0), (b"", _plain(np.fromiter(many, np.int64, rows))))
    valid = np.fromiter((each is not None for each in many), np.bool_, rows)
    return Part((rows, nulls), (_bitmap(valid), _plain(np.fromiter((each or 0 for each in many), np.int64, rows))))


def integers(numbers: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """As `pa.array` would make it; but that imports pandas and numpy.ma the first time."""
    validity = None if valid is None or valid.all() else pa.py_buffer(_bitmap(valid))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def booleans(given: npt.NDArray[np.bool_], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The same for truth values."""
    validity = None if valid is None or valid.all() else pa.py_buffer(_bitmap(valid))
    return pa.Array.from_buffers(pa.bool_(), len(given), [validity, pa.py_buffer(_bitmap(given))])


# -- from Arrow


def part(column: schema.Column, array: pa.Array) -> Part:
    """An array of the column's type, cut to its own rows, without bytes under nulls."""
    if pa.types.is_null(array.type):
        return Part((len(array), len(array)), ())
    if column.bit == schema.ATTRIBUTES:
        return _array_of_maps(array)
    if column.bit == schema.ID and 0 < array.null_count < len(array):
        raise null_ids(array.null_count)
    return _moment_part(array) if column.bit & schema.TIMES else _text_part(array)


def _array_of_maps(array: pa.Array) -> Part:
    rows, nulls = len(array), array.null_count
    offsets = np.frombuffer(array.buffers()[1], np.int32, rows + 1, 4 * array.offset)
    if nulls and np.diff(offsets)[~_valid(array)].any():
        return _array_of_maps(array.take(integers(np.arange(rows))))
    first, last = int(offsets[0]), int(offsets[-1])
    entries = array.values.slice(first, last - first)
    names, values = entries.field(0), entries.field(1)
    if entries.null_count or names.null_count or values.null_count:
        raise not_text("one of them is null")
    validity = _bitmap(_valid(array)) if nulls else b""
    return _map_part(rows, nulls, validity, offsets - offsets[0], _text_part(names), _text_part(values))


def _map_part(rows: int, nulls: int, validity: Bytes, offsets: npt.NDArray[np.int32], names: Part, values: Part) -> Part:
    count = names.nodes[0]
    return Part((rows, nulls, count, 0, count, 0, count, 0), (validity, _plain(offsets), b"", *names.buffers, *values.buffers))


def _text_part(array: pa.Array) -> Part:
    rows, nulls = len(array), array.null_count
    if rows == 0:
        return Part((0, 0), (b"", bytes(4), b""))
    _, spots, data = array.buffers()
    offsets = np.frombuffer(spots, np.int32, rows + 1, 4 * array.offset)
    if nulls and np.diff(offsets)[~_valid(array)].any():
        return _text_part(array.take(integers(np.arange(rows))))
    first, last = int(offsets[0]), int(offsets[-1])
    validity = _bitmap(_valid(array)) if nulls else b""
    text = _plain(data)[first:last] if last > first else b""
    return Part((rows, nulls), (validity, _plain(offsets - offsets[0] if first else offsets), text))


def _moment_part(array: pa.Array) -> Part:
    rows, nulls = len(array), array.null_count
    moments = np.frombuffer(array.buffers()[1], np.int64, rows, 8 * array.offset)
    if not nulls:
        return Part((rows, 0), (b"", _plain(moments)))
    valid = _valid(array)
    return Part((rows, nulls), (_bitmap(valid), _plain(np.where(valid, moments, 0))))


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _bitmap(valid: npt.NDArray[np.bool_]) -> memoryview:
    return _plain(np.packbits(valid, bitorder="little"))


def _plain(buffer: Any) -> memoryview:
    """Bytes whose `len` is their number, without copying."""
    return memoryview(buffer).cast("B")


# -- what can be wrong


def _check_count(name: str, rows: int, given: Sized) -> None:
    if len(given) != rows or rows == 0:
        raise errors.InvalidArgument(f"{name} has {len(given)} entries for {rows} rows.", hint="Give one for each row, and at least one.")


def _all_text(given: Sequence[object]) -> bool:
    return all(issubclass(kind, str) for kind in set(map(type, given)))


def _whole(name: str, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """pyarrow makes several chunks of more than 2 GiB."""
    if isinstance(array, pa.ChunkedArray):
        raise too_large(name)
    return array


def _as_bytes(name: str, value: object) -> bytes:
    if not isinstance(value, str | bytes | bytearray | memoryview):
        raise _not_bytes(name, f"it is of type {type(value).__name__}")
    try:
        return value.encode() if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError as error:
        raise _not_bytes(name, error) from error


def too_large(name: str) -> errors.TooLarge:
    """The error for a column whose bytes do not fit into one batch."""
    return errors.TooLarge(f"{name} has more than 2 GiB.", hint="Split the batch.")


def _not_bytes(name: str, what: object) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"There is a {name} that is neither bytes nor text: {what}.", hint="Encode it first.")


def _not_moments(name: str, what: object) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{name} is not a time: {what}.", hint="Give microseconds since 1970, UTC, as whole numbers.")


def null_ids(count: int) -> errors.InvalidArgument:
    """The error for ids in only some of the rows."""
    return errors.InvalidArgument(f"{count} of the ids are null.", hint="Give every row an id, or send no ids at all.")


def not_text(what: object) -> errors.InvalidArgument:
    """The error for names and values of attributes that are not text."""
    return errors.InvalidArgument(f"There are attributes that are not text: {what}.", hint=TEXT_HINT)
