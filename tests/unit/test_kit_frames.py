"""What `send_batch` is given, as batches: the same bytes whichever way it came, in parts of about equal size."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bowstring import errors
from bowstring.client import frames
from bowstring.client.frames import Frame
from bowstring.messages import encoding

MIB = 1024 * 1024


def drafts(data: object, target: int = 2 * MIB) -> list[tuple[range, encoding.Encoded]]:
    return [(piece.rows, piece.encode()[0].encoded()) for piece in Frame.of(data, 7, None).pieces(1, target, 16 * MIB)]


def values_of(data: object) -> list[Any]:
    return [value for _, batch in drafts(data) for value in encoding.decode(batch.mask, batch.data).column("value").to_pylist()]


@pytest.mark.parametrize("size", [0, 3, 64, 65, 1024])
def test_a_list_and_a_table_of_the_same_values_are_the_same_bytes(size: int):
    values = [bytes([number % 256]) * size for number in range(100)]
    ((rows, of_list),) = drafts(values)
    ((_, of_table),) = drafts(pa.table({"value": pa.array(values, pa.binary())}))
    assert rows == range(100)
    assert of_list == of_table == encoding.encode_columns(100, values=values, created=7)


def test_lists_may_hold_text_nulls_and_what_can_change_later():
    buffer = bytearray(b"y" * 1000)
    data = ["ä" * 500, None, buffer, memoryview(b"z" * 1000), b""]
    pieces = Frame.of(data, 7, None).pieces(1, 2 * MIB, 16 * MIB)
    buffer[0] = 0
    batch = next(pieces).encode()[0].encoded()
    found = encoding.decode(batch.mask, batch.data).column("value").to_pylist()
    assert found == [("ä" * 500).encode(), None, b"y" * 1000, b"z" * 1000, b""]


@pytest.mark.parametrize("size", [10, 1000])
def test_what_is_divided_has_no_small_rest(size: int):
    values = [b"v" * size] * 4000
    sizes = [len(rows) for rows, _ in drafts(values, target=1900 * (size + frames.ROW_BYTES))]
    assert sum(sizes) == 4000
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) < 10


@pytest.mark.parametrize("size", [10, 1000])
def test_a_long_list_with_something_wrong_at_its_end_is_refused_as_a_whole(size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frames, "_AT_ONCE_BYTES", 10_000)
    values: list[Any] = [b"%d" % number + b"v" * size for number in range(2000)]
    assert values_of(values) == values
    assert values_of(["text", *values]) == [b"text", *values]
    with pytest.raises(errors.InvalidArgument, match=r"^data\[2000\]=5 is of type int"):
        Frame.of([*values, 5], 7, None)
