"""Which broker serves a partition: the kit's service map.

Producers and readers ask it for each (topic, partition), even where there is one broker. A
partition that it does not name is served by the broker that the kit is connected to, whichever seed
that is. It learns another address from the broker itself: an answer that is `Unavailable` with the
detail `ask` says "not here, ask there". What it has learned is a hint, no promise: a broker that
does not answer is forgotten, and its partitions are asked for at a seed again, which knows where
they are now.
"""

from __future__ import annotations

from typing import Final

from bowstring import errors

ASK: Final = "ask"
"""Among the details of an error: the address of the broker to ask instead; empty if no broker
serves the partition right now.
"""


class Routes:
    """The brokers of a client's partitions. Producers and readers of the client share it."""

    def __init__(self) -> None:
        self._learned: dict[tuple[str, int], str] = {}

    def address(self, topic: str, partition: int) -> str | None:
        """The broker that serves a partition; None for the one that the kit is connected to."""
        return self._learned.get((topic, partition))

    def learn(self, topic: str, partition: int, address: str) -> None:
        """A broker said that this one serves the partition; an empty address only takes back what
        was known.
        """
        if address:
            self._learned[topic, partition] = address
        else:
            self._learned.pop((topic, partition), None)

    def forget(self, address: str) -> None:
        """This broker does not answer."""
        self._learned = {place: known for place, known in self._learned.items() if known != address}


def asks_elsewhere(error: errors.Error) -> str | None:
    """The address that the error names instead; None if it says something else."""
    return error.details.get(ASK) if isinstance(error, errors.Unavailable) else None
