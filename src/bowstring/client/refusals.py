"""Messages that a consumer does not hold any more, and what the program learns about them.

A refusal is of many messages at once. It makes an error for each that the program asks for: who
holds the message now, or what became of it. An error that a receipt has raised counts as seen;
`flush` and `close` raise the others.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from bowstring import errors, times
from bowstring.client.nack_times import not_kept
from bowstring.client.receipts import Answers, partly_refused
from bowstring.messages import columns

REFUSALS_MAX: Final = 1000
"""So many refusals that the program has not seen are kept for `flush`."""

_HINT: Final = "Ask for a longer lease= or let it be extended (alive=)."
_SOUGHT_HINT: Final = "Leave the message: it comes again if it is behind that place."
_STANDINGS: Final = {
    "settled": "the message is settled",
    "waiting": "the message waits for its next delivery",
    "never": "the message was not delivered yet",
    "sought": "the subscription was set to another place",
}


class Refusal:
    """Messages of one lease that were refused together."""

    __slots__ = ("_ended", "_holder", "_now", "_standing", "_until", "offsets", "partition", "seen", "topic")

    def __init__(
        self,
        topic: str,
        partition: int,
        offsets: npt.NDArray[np.int64],
        *,
        ended: int,
        now: int,
        standing: str = "",
        holder: str = "",
        until: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.seen: set[int] = set()
        """Offsets whose error was raised."""
        self._ended = ended
        """When the consumer's lease ended, or was to end, by the lease clock."""
        self._now = now
        """What that clock has shown when the messages were refused."""
        self._standing = standing
        self._holder = holder
        self._until = until

    def error(self, offset: int) -> errors.Error:
        """The error for one of its messages: a new one each time, because raising writes into it."""
        place = f"{self.topic}/{self.partition}@{offset}"
        if self._standing == "kept":
            return not_kept(place, self._until)
        ended, standing = self._ended_text(), self._standing_text()
        details = {
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(offset),
            "standing": self._standing,
            "ended": times.to_text(self._ended) if self._ended else "",
            "holder": self._holder,
            "until": times.to_text(self._until) if self._until else "",
        }
        told = " and ".join(part for part in (ended, standing) if part)
        hint = _SOUGHT_HINT if self._standing == "sought" else _HINT
        return errors.LeaseLost(
            f"the lease on {place} {told}." if ended else f"this consumer does not hold {place}{': ' * bool(standing)}{standing}.",
            hint=hint,
            details={name: text for name, text in details.items() if text},
        )

    def _ended_text(self) -> str:
        if not self._ended:
            return ""
        if self._ended > self._now:
            return "was ended" if self._standing == "sought" else "was taken away before its end"
        return f"ended {(self._now - self._ended) / 1e6:.1f} s ago at {clock_time(self._ended)}"

    def _standing_text(self) -> str:
        if self._standing == "leased":
            return f"'{self._holder}' holds it now" if self._holder else "another consumer holds it now"
        return _STANDINGS.get(self._standing, "")

    def unseen(self) -> list[int]:
        """The offsets whose errors the program has not seen."""
        return [offset for offset in self.offsets.tolist() if offset not in self.seen]


def clock_time(moment: int) -> str:
    """A time of day for people: 09:30:12.100Z."""
    return times.to_text(moment)[11:23] + "Z"


class Refusals:
    """The refusals that the program has not seen."""

    def __init__(self) -> None:
        self._refusals: deque[Refusal] = deque(maxlen=REFUSALS_MAX)

    def add(self, refusal: Refusal) -> None:
        """Keeps a refusal for `flush`."""
        self._refusals.append(refusal)

    def raised(self) -> errors.Error | None:
        """What `flush` raises: the error itself for a single message, else `PartlyRefused` over all
        that the program has not seen. It counts as seen then.
        """
        left = [(refusal, offset) for refusal in self._refusals for offset in refusal.unseen()]
        self._refusals.clear()
        for refusal, offset in left:
            refusal.seen.add(offset)
        if len(left) <= 1:
            return left[0][0].error(left[0][1]) if left else None
        none = columns.booleans(np.zeros(len(left), np.bool_))
        partitions = columns.integers(np.array([refusal.partition for refusal, _ in left], np.int32))
        offsets = columns.integers(np.array([offset for _, offset in left], np.int64))
        refused: dict[int, errors.Error] = {row: refusal.error(offset) for row, (refusal, offset) in enumerate(left)}
        return partly_refused(Answers(left[0][0].topic, none, partitions, offsets, none, refused))
