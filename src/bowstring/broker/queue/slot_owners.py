"""Which consumers own the slots of a key-shared subscription.

Each of 4,096 slots has an owner, and free keys of a slot go to it. Slots are planned by their load,
which is the rows that were looked at (`core.key_slots`): when a consumer joins or leaves, and when
the plan is off. A consumer that has no room for a second while rows wait for it loses its slots to
the others, and gets some again when it has room.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bowstring.core import key_slots
from bowstring.core.key_rows import Hashes
from bowstring.core.key_table import KEYLESS
from bowstring.core.keys import NO_OWNER, SLOTS, slots_of

IDLE_MICROSECONDS: Final = 1_000_000
"""A consumer that takes nothing for so long loses its idle keys."""
PLAN_MICROSECONDS: Final = 1_000_000
"""So often a plan is compared with the load."""
HALF_MICROSECONDS: Final = 5_000_000
"""After so long a load counts half."""


class SlotOwners:
    """The slots of one subscription."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Consumers have numbers, by name."""
        self.owners = np.full(SLOTS, NO_OWNER, np.int16)
        self._loads = np.zeros(SLOTS)
        self._full: dict[str, int] = {}
        """Since when consumers have no room while rows wait for them."""
        self._idle: set[str] = set()
        """Those that have lost their slots for that."""
        self._is_changed = False
        """Whether a consumer has become idle, or is not any more."""
        self._compared = 0
        """When the plan was compared with the load."""

    def count(self, hashes: Hashes) -> None:
        """Rows of these keys were looked at."""
        np.add.at(self._loads, slots_of(hashes[hashes != KEYLESS]), 1.0)

    def owner_of(self, key: int) -> str:
        """The consumer that a key prefers, by its hash; empty if there is none."""
        number = int(self.owners[key % SLOTS])
        return next((name for name, each in self.numbers.items() if each == number), "")

    def join(self, name: str) -> None:
        """A consumer is connected: it gets its share."""
        if name not in self.numbers:
            used = set(self.numbers.values())
            self.numbers[name] = next(number for number in range(len(used) + 1) if number not in used)
        self._plan()

    def leave(self, name: str) -> None:
        """A consumer is not connected any more: others get its slots."""
        self.numbers.pop(name, None)
        self._full.pop(name, None)
        self._idle.discard(name)
        self._plan()

    def has_room(self, name: str, now: int, *, has_room: bool, waiting: bool) -> None:
        """Whether a consumer has room, and whether rows wait for it."""
        if has_room:
            self._full.pop(name, None)
            self._is_changed |= name in self._idle
            self._idle.discard(name)
        elif waiting:
            self._full.setdefault(name, now)

    def took(self, name: str) -> None:
        """A consumer was granted rows: it works, also if it is full whenever it is looked at."""
        self._full.pop(name, None)

    def next_look(self, now: int) -> int | None:
        """When to look again whether a consumer takes nothing; None for whenever."""
        waits = [since for name, since in self._full.items() if name not in self._idle]
        return max(min(waits), now - IDLE_MICROSECONDS // 2) + IDLE_MICROSECONDS if waits else None

    def look(self, now: int) -> bool:
        """Plans anew if that is due; says whether it did."""
        late = {name for name, since in self._full.items() if now - since >= IDLE_MICROSECONDS} - self._idle
        if late and len(self._idle) + len(late) < len(self.numbers):
            self._idle |= late
            self._is_changed = True
        if not self._is_changed and (now - self._compared < PLAN_MICROSECONDS or not self._is_off(now)):
            return False
        self._plan()
        return True

    def _is_off(self, now: int) -> bool:
        self._loads *= 0.5 ** ((now - self._compared) / HALF_MICROSECONDS)
        self._compared = now
        return key_slots.is_off(self._loads, self.owners, self._working())

    def _working(self) -> list[int]:
        return sorted(number for name, number in self.numbers.items() if name not in self._idle)

    def _plan(self) -> None:
        self._is_changed = False
        self.owners = key_slots.plan(self._loads, self.owners, self._working())
