"""The versions of the protocol that this software speaks, as a broker and as a kit.

In the handshake both sides name the oldest and the newest version that they speak, and then speak
the newest that both know. If there is none, the error says which side speaks which versions, and
which of the two to upgrade.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Versions(NamedTuple):
    """A range of versions, both ends included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.newest}"

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.oldest <= version <= self.newest


SPOKEN: Final = Versions(1, 1)
