"""Generated ids."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bowstring.messages import ids

PRODUCER = bytes(range(16))
HEX = "000102030405060708090a0b0c0d0e0f"


def test_a_generated_id_names_producer_number_partition_and_row():
    assert ids.generated(PRODUCER, 26, 3, 47) == f"{HEX}-1a-3-2f"
    assert ids.parse(f"{HEX}-1a-3-2f") == ids.GeneratedId(PRODUCER, 26, 3, 47)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_every_generated_id_is_recognised(producer: bytes, number: int, partition: int, row: int):
    text = ids.generated(producer, number, partition, row)
    assert ids.parse(text) == (producer, number, partition, row)
    assert len(text) <= 67


@pytest.mark.parametrize(
    "text",
    [
        "", "order-7", f"{HEX}", f"{HEX}-1a-3", f"{HEX}-1a-3-", f"{HEX}-1a-3-2f-0", f"{HEX}-01a-3-2f", f"{HEX}-1A-3-2f", f"{HEX}-1a-3-2f\n",
        f" {HEX}-1a-3-2f", f"{HEX[:-1]}-1a-3-2f", f"{HEX.upper()}-1a-3-2f", f"{HEX}--3-2f", f"{HEX}-1a-3-00", f"{HEX}-{'1' * 17}-3-2f",
        f"{HEX}-1a-{'1' * 9}-2f", f"{HEX}-1a-3-{'1' * 9}", f"{HEX}-1a-3-٣", f"{HEX}-+1-3-2f", f"{HEX}-1_0-3-2f",
    ],
)  # fmt: skip
def test_every_other_text_is_a_natural_id(text: str):
    assert ids.parse(text) is None


@given(st.text(alphabet="0123456789abcdefA-g\n", max_size=50).map(lambda tail: HEX + tail) | st.text())
def test_what_is_recognised_is_what_is_generated(text: str):
    parsed = ids.parse(text)
    assert parsed is None or ids.generated(*parsed) == text


@pytest.mark.parametrize(
    ("first_row", "rows"), [(0, 0), (0, 1), (0, 17), (5, 300), (15, 2), (16, 1), (250, 70_000), (2**31, 3), (2**32 - 1, 1)]
)
def test_a_column_has_the_id_of_each_row(first_row: int, rows: int):
    column = ids.column(PRODUCER, 26, 3, np.arange(first_row, first_row + rows))
    column.validate(full=True)
    assert column.type == pa.utf8()
    assert column.to_pylist() == [ids.generated(PRODUCER, 26, 3, row) for row in range(first_row, first_row + rows)]
