"""The open readers of a client, which learn what the client itself changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring.wire.generated import bowstring_pb2 as pb

if TYPE_CHECKING:
    from bowstring.client.reader import Reader


class OpenReaders(dict["Reader", None]):
    """The open readers of a client, in the order in which they were made. They learn what the
    client itself changes before its caller gets the answer. The broker tells them, too, over their
    own streams, perhaps a moment later.
    """

    def deleted(self, topic: str, topic_id: int, places: Sequence[tuple[int, int]]) -> None:
        """Messages of a topic were deleted at these partitions and offsets."""
        for reader in self:
            reader._read_ahead.deleted(topic, topic_id, places)  # pyright: ignore[reportPrivateUsage]

    def altered(self, topic: pb.Topic) -> None:
        """A topic has these settings now."""
        for reader in self:
            reader._read_ahead.altered(topic)  # pyright: ignore[reportPrivateUsage]

    def topic_deleted(self, topic: str, topic_id: int) -> None:
        """A topic was deleted."""
        for reader in self:
            reader._read_ahead.topic_deleted(topic, topic_id)  # pyright: ignore[reportPrivateUsage]
