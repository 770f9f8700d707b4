"""A small catalog of every kind of row, kept as a file of each format: what an older Bowstring wrote must be read by every later one.

`fixtures/catalog-1.sqlite` was made at the commit before format 2 came, by a program that registered twice and stored what is below. It
is never made again: the software that writes its format is gone.
"""

from __future__ import annotations

from bowstring.ports.catalog import TopicRow
from bowstring.ports.journal import Row
from bowstring.ports.store import Page

BROKER = 1
CREATED, DELETED = 1_700_000_000_000_000, 1_700_000_001_000_000
PAGES = [Page(b"whose rows", b"a batch"), Page(b"", bytes(range(256)) * 20)]
ROWS = [
    Row(sequence, 1 if sequence <= 6 else 2, b"changes of %d " % sequence * (300 if sequence == 5 else sequence))
    for sequence in range(1, 13)
]
TOPICS = [
    TopicRow(1, "orders", 3, CREATED, b"\x00settings", None),
    TopicRow(2, "payments", 1, CREATED, b"", DELETED),
    TopicRow(3, "été 夏", 64, CREATED, b"x" * 3_000, None),
]


def pages_of(sequence: int) -> list[Page]:
    """The pages that the row of the fixture has inlined."""
    return PAGES[: sequence % 3]
