"""When a disk is told to be full, and when to be free."""

from __future__ import annotations

from bowstring.broker.shortage import TURNS_FREE, Shortage
from bowstring.host.clock import SystemClock


class Noted:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def note(self, event: str, /, **fields: object) -> None:
        self.events.append(event)


def test_a_full_disk_is_told_once_and_free_when_there_is_room_for_a_while():
    noted = Noted()
    shortage = Shortage(noted, SystemClock())
    shortage.found_room()
    assert noted.events == []
    shortage.begin()
    shortage.begin()
    assert noted.events == ["disk-full"]
    for _ in range(TURNS_FREE):
        shortage.found_room()
    assert noted.events == ["disk-full", "disk-free"]
    shortage.found_room()
    assert noted.events == ["disk-full", "disk-free"]


def test_room_for_a_moment_is_not_the_end():
    noted = Noted()
    shortage = Shortage(noted, SystemClock())
    for _ in range(10):
        shortage.begin()
        for _ in range(TURNS_FREE - 1):
            shortage.found_room()
    assert noted.events == ["disk-full"]
