"""Unsealed pages whose ids could not be read at load: for which ids the answer is unknown, and
until when.
"""

from __future__ import annotations


class UnreadIds:
    """Of one partition. It is in its snapshots: a seal writes the ids of these pages to no section."""

    def __init__(self) -> None:
        self.until = 0
        """An id may have been published within the window before this moment: until then no publish
        with an id is taken.
        """
        self.end = 1
        """Messages below this offset may be there and not be found by their ids."""

    def add(self, end: int, until: int) -> None:
        """A page that ends there; the deduplication window has passed it at that moment."""
        self.end, self.until = max(self.end, end), max(self.until, until)
