"""Which versions of the protocol this software speaks, as a broker and as a kit.

Both sides tell the oldest and the newest that they speak in the handshake, and speak the newest that both know. Where there is none, they
part with a sentence that says who speaks what, and which of the two has to be renewed.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Versions(NamedTuple):
    """A window of versions, both ends included."""

    oldest: int
    newest: int

    def __str__(self) -> str:
        return f"{self.oldest} to {self.newest}" if self.oldest < self.newest else f"{self.newest}"

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.oldest <= version <= self.newest


SPOKEN: Final = Versions(1, 1)
