"""Bugs on purpose, each a switch over the real code, with the faults in which it shows.

The simulation has to find every one of them by its checkers. An assertion of the product that stops a bug proves nothing about the
simulation, so where one would, the bug takes it away. No bug has a seed of its own: the search begins at seed 1, in a world whose
faults are of the kind that the bug needs.
"""

from __future__ import annotations

from tests.simulation import (
    bugs_of_backing_up,
    bugs_of_choosing,
    bugs_of_consuming,
    bugs_of_deleting,
    bugs_of_delivery,
    bugs_of_due_times,
    bugs_of_flushing,
    bugs_of_ids,
    bugs_of_keeping,
    bugs_of_keys,
    bugs_of_leasing,
    bugs_of_letters,
    bugs_of_reading,
    bugs_of_room,
    bugs_of_schedules,
    bugs_of_settling,
    bugs_of_state,
    bugs_of_takeover,
    bugs_of_the_kit,
    bugs_of_the_wire,
    bugs_of_unsettled,
)
from tests.simulation.planting import BUGS, Bug

FILES = (
    bugs_of_flushing,
    bugs_of_state,
    bugs_of_keeping,
    bugs_of_reading,
    bugs_of_takeover,
    bugs_of_the_kit,
    bugs_of_deleting,
    bugs_of_room,
    bugs_of_backing_up,
    bugs_of_delivery,
    bugs_of_due_times,
    bugs_of_ids,
    bugs_of_the_wire,
    bugs_of_leasing,
    bugs_of_letters,
    bugs_of_choosing,
    bugs_of_keys,
    bugs_of_settling,
    bugs_of_consuming,
    bugs_of_schedules,
    bugs_of_unsettled,
)
"""Where they are; each adds its own to the list."""

__all__ = ["BUGS", "FILES", "Bug"]
