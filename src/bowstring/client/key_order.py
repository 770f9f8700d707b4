"""The order of keys in a consumer of a key-shared subscription.

**Revoking.** A message that is given back takes the later ones of its key along: the broker delivers
them again, behind it. The consumer need not wait to hear that. It revokes them in the step in which
the program gives the message back, in any thread: they are not handed out, and settling them raises
`LeaseLost`. All messages of a key that a consumer holds are of one lease, but they may come in
several pages, so a lease remembers which of its keys were given back.

**Working on several messages.** `run` works on one message of a key at a time. A worker that gets
the next message of a key that is being worked on leaves it to the worker that has the key.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bowstring.client.lease_marks import RELEASE, REVOKED
from bowstring.messages.columns import integers

if TYPE_CHECKING:
    from bowstring.client.leased_message import LeasedMessage
    from bowstring.client.leased_page import LeasedPage

# Leased messages keep their page and their row from programs.
# pyright: reportPrivateUsage=false


def revoke_behind(page: LeasedPage, rows: npt.NDArray[np.intp]) -> None:
    """These rows of a page are given back: the later ones of their keys are revoked. In any thread.
    The lease knows of it before its pages are looked at, and a page that comes is of the lease
    before it is compared with what the lease knows: none is missed.
    """
    keys = page.any_column("key").take(integers(rows)).to_pylist()
    offsets = page.offsets[rows].tolist()
    firsts = {key: offset for key, offset in zip(reversed(keys), reversed(offsets), strict=True) if key is not None}
    if not firsts:
        return
    known = page.lease.given_back
    for key, offset in firsts.items():
        known[key] = min(offset, known.get(key, offset))
    for other in tuple(page.lease.pages):
        _revoke(other, firsts)
    page.settlements.doubted()


def revoke_arrived(page: LeasedPage) -> None:
    """A page has come of whose lease keys were given back."""
    if page.lease.given_back:
        _revoke(page, dict(page.lease.given_back))


def _revoke(page: LeasedPage, firsts: dict[bytes, int]) -> None:
    column = page.any_column("key")
    if pa.types.is_null(column.type):
        return
    found = pc.is_in(column, value_set=pa.array(list(firsts), column.type)).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(found & (page.mark_array == 0))
    if not len(rows):
        return
    keys = column.take(integers(rows)).to_pylist()
    behind = page.offsets[rows] > np.array([firsts[key] for key in keys], np.int64)
    page.lose_rows(rows[behind], REVOKED)


class KeyGate:
    """Lets one worker at a time have a key."""

    def __init__(self, lock: AbstractContextManager[Any], taking: AbstractContextManager[Any]) -> None:
        """The locks are such if workers are threads."""
        self._lock = lock
        self.taking = taking
        """Held by a worker from when it takes a message until that has entered."""
        self._waiting: dict[tuple[int, bytes], deque[LeasedMessage]] = {}
        """By partition and key, of those that are worked on."""
        self._is_closed = False

    def enter(self, message: LeasedMessage) -> bool:
        """Whether the worker is to work on this message; else another one does, later."""
        key = message.key
        if key is None:
            return True
        place = message.partition, key
        with self._lock:
            waiting = self._waiting.get(place)
            if waiting is None:
                self._waiting[place] = deque()
                return True
            if self._is_closed:
                _release(message)
            else:
                waiting.append(message)
            return False

    def leave(self, message: LeasedMessage) -> LeasedMessage | None:
        """A message is done. Gives the next one of its key, which the same worker takes."""
        key = message.key
        if key is None:
            return None
        place = message.partition, key
        with self._lock:
            waiting = self._waiting[place]
            if waiting:
                return waiting.popleft()
            del self._waiting[place]
            return None

    def fail(self, message: LeasedMessage) -> None:
        """The worker ends. Messages of the key that wait for it are given back."""
        if message.key is not None:
            with self._lock:
                for following in self._waiting.pop((message.partition, message.key), ()):
                    _release(following)

    def close(self) -> None:
        """Messages that wait are given back: the program has not seen them."""
        with self._lock:
            self._is_closed = True
            for waiting in self._waiting.values():
                while waiting:
                    _release(waiting.popleft())


def _release(message: LeasedMessage) -> None:
    page: LeasedPage = message._page  # pyright: ignore[reportAssignmentType]
    page.mark(message._row, 1, RELEASE)
