"""Rows that are taken out of a batch: consecutive ones are cut, others picked, with the same bytes."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bowstring.messages import encoding


def _columns(source: random.Random, rows: int) -> dict[str, Any]:
    def some(make: Callable[[], Any], share: float) -> list[Any]:
        return [make() if source.random() < share else None for _ in range(rows)]

    found: dict[str, Any] = {"values": some(lambda: source.randbytes(source.randrange(20)), source.choice((1.0, 0.7, 0.1)))}
    others: dict[str, Callable[[], list[Any]]] = {
        "keys": lambda: some(lambda: source.randbytes(source.randrange(5)), 0.6),
        "attributes": lambda: some(lambda: {f"k{number}": "v" * source.randrange(9) for number in range(source.randrange(4))}, 0.6),
        "created": lambda: [source.randrange(1 << 50) for _ in range(rows)],
        "due": lambda: some(lambda: source.randrange(1 << 50), 0.5),
        "ids": lambda: [str(number) * source.randrange(1, 4) for number in range(rows)],
    }
    return found | {name: make() for name, make in others.items() if source.random() < 0.6}


@pytest.mark.parametrize("seed", range(100))
def test_consecutive_rows_have_the_bytes_of_picked_ones(seed: int):
    source = random.Random(seed)
    rows = source.randrange(1, 40)
    encoded = encoding.draft_columns(rows, **_columns(source, rows)).encoded()
    batch = encoding.decode(encoded.mask, encoded.data)
    for _ in range(5):
        first = source.randrange(rows)
        wanted = np.arange(first, source.randrange(first + 1, rows + 1))
        assert encoding.take(batch, wanted) == encoding.take(batch, pa.array(wanted))


def test_neither_rows_before_nor_after_are_in_it():
    values = [os.urandom(16) for _ in range(9)]
    encoded = encoding.draft_columns(9, values=values, created=1).encoded()
    taken = bytes(encoding.take(encoding.decode(encoded.mask, encoded.data), np.arange(3, 6)).data)
    assert [value in taken for value in values] == [False] * 3 + [True] * 3 + [False] * 3


@pytest.mark.parametrize("rows", [[2, 0, 1], [0, 0, 2], [1, 2, 2], [0, 2, 1, 3], [3, 2, 1]])
def test_rows_that_only_look_consecutive_are_picked(rows: list[int]):
    encoded = encoding.draft_columns(4, values=[b"a", b"b", b"c", b"d"]).encoded()
    taken = encoding.take(encoding.decode(encoded.mask, encoded.data), np.array(rows))
    assert encoding.decode(taken.mask, bytes(taken.data)).column("value").to_pylist() == [b"abcd"[row : row + 1] for row in rows]
