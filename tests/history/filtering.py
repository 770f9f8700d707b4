"""The filters that readers of a simulation use, and their meaning: written a second time, row by
row, apart from the product.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.history.events import Row

FILTERS: dict[str, Callable[[Row], bool]] = {
    "key = 'k3'": lambda row: row.key == "k3",
    "key in ('k1', 'k2', 'k4') or key is null": lambda row: row.key in ("k1", "k2", "k4", ""),
    "key is not null and not key like '%5'": lambda row: row.key != "" and not row.key.endswith("5"),
    "attributes.a >= 'a2' or due is not null": lambda row: row.attributes >= "a2" or row.due > 0,
    "attributes['a'] is null and expires is null": lambda row: row.attributes == "" and row.expires == 0,
}


def passes(where: str, row: Row) -> bool:
    """Whether a message, as it was sent, passes the filter of a reader."""
    return not where or FILTERS[where](row)
