"""What a publish is answered, as values. Refusals are `bowstring.Error`s."""

from __future__ import annotations

from typing import NamedTuple


class Repeat(NamedTuple):
    """A run of rows of a batch that were stored before, and the first of the consecutive offsets that they have had all along."""

    row: int
    rows: int
    offset: int


class Stored(NamedTuple):
    """The batch is durable. Rows that are in no repeat have the offsets `first_offset`, `first_offset + 1`, … in their order."""

    first_offset: int
    rows: int
    repeats: tuple[Repeat, ...] = ()
    duplicate: bool = False


class ResendAfter(NamedTuple):
    """Not stored, because it does not follow on what is here: the producer's last batch in this partition has this number."""

    number: int


Answer = Stored | ResendAfter
