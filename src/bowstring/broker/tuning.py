"""Sizes that decide how the broker works and that no operator needs to set. The simulation makes them small, so that borders are common."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.store.segments import MIB

KIB = 1024


class Tuning(NamedTuple):
    """The values of a real broker are the defaults."""

    overlap_bytes: int = 256 * KIB
    """While a commit is under way, a flush of less than this waits for it and gathers: syncing early would make two syncs of one."""
    small_page_bytes: int = 16 * KIB
    """The sealer copies pages together that are in segments and shorter than this."""
    cut_page_bytes: int = 64 * KIB
    """The sealer cuts pages of this size or more, where rows are due after the others are gone."""
    kept_seconds: float = 60.0
    """Retention releases rows that were kept for their due time so often."""
    free_files_max: int = 4
    """The store keeps so many files of released segments, to use them again."""
    shared_directory: bool = False
    """Other nodes write in the same directory, and one takes over from the other."""
    reserve_bytes: int = 8 * MIB
    """Space that is kept for the catalog, to be given up when the disk is full."""
