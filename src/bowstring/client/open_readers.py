"""The open readers of a client. What the client itself changes they know before its caller is told that it is done.

The broker tells them, too, over their own streams; but that may come a moment later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.reader import Reader

# It belongs to readers as their client does.
# pyright: reportPrivateUsage=false


class OpenReaders(dict["Reader", None]):
    """In the order in which they were made."""

    def deleted(self, topic: str, topic_id: int, places: Sequence[tuple[int, int]]) -> None:
        """Messages of a topic were deleted at these partitions and offsets."""
        for reader in self:
            reader._fetching.deleted(topic, topic_id, places)

    def altered(self, topic: pb.Topic) -> None:
        """A topic has these settings now."""
        for reader in self:
            reader._fetching.altered(topic)

    def topic_deleted(self, topic: str, topic_id: int) -> None:
        """A topic was deleted."""
        for reader in self:
            reader._fetching.topic_deleted(topic, topic_id)
