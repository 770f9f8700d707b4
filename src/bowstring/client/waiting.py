"""What was sent before the number of the topic's partitions was known.

That is so for the first moments of a producer only, or as long as no broker can be reached. Each entry keeps when it was sent and how much
time it has, and is routed like any other once the topic was described. Its receipt refers to a placeholder meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from bowstring.client.outgoing import Outgoing
from bowstring.client.receipts import MessageReceipt, Part, RowsReceipt

if TYPE_CHECKING:
    from bowstring.client.gathering import Gathering


class WaitingMessage(NamedTuple):
    """A message with a key or an id."""

    started: float
    timeout: float
    size: int
    placeholder: Outgoing
    receipt: MessageReceipt
    row: tuple[Any, ...]

    def route(self, gathering: Gathering) -> None:
        """Under the lock of `gathering`."""
        gathering.forward(self.receipt, self.row, self.timeout, self.size)


class WaitingBatch(NamedTuple):
    """A `send_batch` with keys or ids."""

    started: float
    timeout: float
    size: int
    placeholder: Outgoing
    receipt: RowsReceipt
    divide: Callable[[], list[Part]]

    def route(self, gathering: Gathering) -> None:
        """Under the lock of `gathering`."""
        self.receipt.parts[:] = self.divide()


Waiting = WaitingMessage | WaitingBatch
