"""How a change says what it is about: the machine that it belongs to, and rows by their offsets."""

from __future__ import annotations

from typing import NamedTuple

Runs = tuple[tuple[int, int], ...]
"""Runs of consecutive rows, ascending: the first offset, and how many."""

Spans = tuple[int, ...]
"""Runs as differences: skipped, rows, skipped, rows, and so on, from offset 0."""


class PartitionAddress(NamedTuple):
    """A partition of a topic, by the topic's id."""

    topic: int
    partition: int


Address = PartitionAddress
"""Where a machine lives. All of today's own a partition; what spans several gets an address of its
own kind here.
"""
