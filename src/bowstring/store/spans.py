"""Decides which references to read together.

The pages of one partition lie scattered over segments that all partitions share, but those of one
flush lie close together, and a reader asks for many at once. A read costs a hand-over to a thread
and back, and perhaps a seek, so pages that lie close are read together, with the gap between them;
and small reads in one segment are handed over together. References keep the order in which they are
asked for, which is the order in which they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bowstring.ports.store import Reference

# Reading this many unneeded bytes takes less time than a second read: 64 KiB are copied in some 15
# µs, a hand-over takes 50 to 100 µs.
GAP_BYTES_MAX = 64 << 10
SPAN_BYTES_MAX = 4 << 20
SPANS_A_READ = 16
_SHARE = 4


class Span(NamedTuple):
    """Bytes that are read at once, and the references that it answers."""

    segment: int
    position: int
    length: int
    references: list[Reference]

    def outlives(self, reference: Reference) -> bool:
        """Whether the page is such a small part of the read that it is copied out. Otherwise a
        cache that counts the page's bytes would hold many times as many.
        """
        return reference.length * _SHARE < self.length


def spans(references: Sequence[Reference], gap_max: int = GAP_BYTES_MAX, bytes_max: int = SPAN_BYTES_MAX) -> list[Span]:
    """Joins neighbours. A single reference may be longer than `bytes_max`; a joined span is not."""
    result: list[Span] = []
    for reference in references:
        last = result[-1] if result else None
        if last is not None and last.segment == reference.segment:
            gap = reference.position - (last.position + last.length)
            length = last.length + gap + reference.length
            if 0 <= gap <= gap_max and length <= bytes_max:
                last.references.append(reference)
                result[-1] = last._replace(length=length)
                continue
        result.append(Span(reference.segment, reference.position, reference.length, [reference]))
    return result


def reads(parts: Sequence[Span]) -> list[list[Span]]:
    """Spans of one segment that follow each other, as many as are worth one hand-over to a thread."""
    result: list[list[Span]] = []
    for span in parts:
        last = result[-1] if result else None
        small = max(span.length, last[-1].length if last else 0) <= GAP_BYTES_MAX
        if last and small and last[-1].segment == span.segment and len(last) < SPANS_A_READ:
            last.append(span)
        else:
            result.append([span])
    return result
