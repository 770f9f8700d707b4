"""The calls about places in topics for programs without asyncio (`sync`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bowstring.client import client as asynchronous
from bowstring.client.positions import Position
from bowstring.client.ranges import Start
from bowstring.wire.loops import LoopThread

# The two faces are one thing in two files.
# pyright: reportPrivateUsage=false


class PositionCalls:
    """The calls of a client about places."""

    _client: asynchronous.Client
    _thread: LoopThread

    def offsets(self, topic: str, at: Start = "latest", *, partitions: Sequence[int] | None = None) -> dict[int, int]:
        """The offset that a place means in each partition: `"beginning"`, `"latest"` (the next message's), a moment (the first message
        that arrived then or later), `-100` (where the newest 100 of the topic begin)."""
        return self._thread.run(self._client.offsets(topic, at, partitions=partitions))

    def positions(self, topic: str | None = None) -> Iterator[Position]:
        """All named positions by topic and name, or those of one topic; page by page."""
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            page, after = self._thread.run(self._client._position_page(topic, after))
            yield from page

    def position(self, name: str, topic: str) -> Position:
        """Where a named position is. Raises `NotFound`."""
        return self._thread.run(self._client.position(name, topic))

    def set_position(self, name: str, topic: str, to: Start, *, dry_run: bool = False) -> Position:
        """Moves a named position, also backwards, and makes it if there is none; `to` is a place as a reader's `start`. Readers that are
        at work are not moved. With `dry_run` it only says what it would be."""
        return self._thread.run(self._client.set_position(name, topic, to, dry_run=dry_run))

    def delete_position(self, name: str, topic: str, missing_ok: bool = False) -> None:
        """Deletes a named position: the next reader of that name begins at its `start`. Raises `NotFound`, unless `missing_ok`."""
        self._thread.run(self._client.delete_position(name, topic, missing_ok))
