"""How many of the available messages a micro-batch takes."""

from __future__ import annotations

from bowstring.spark.places import Offsets, Standings


def rows(starts: Offsets, ends: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - starts[name][number]) for name, partitions in ends.items() for number, end in partitions.items())


def size(starts: Offsets, ends: Offsets, standings: Standings) -> float:
    """How many bytes lie between, by the average of each topic."""
    return sum(rows({name: starts[name]}, {name: partitions}) * standings[name].row_bytes for name, partitions in ends.items())


def rows_of_bytes(starts: Offsets, ends: Offsets, standings: Standings, bytes_max: int) -> int:
    """How many offsets take this many bytes, by the average of each topic; at least one, because a
    stream must make progress.
    """
    total, waiting = rows(starts, ends), size(starts, ends, standings)
    return total if waiting <= bytes_max else max(1, int(total * bytes_max / waiting))


def advance(starts: Offsets, ends: Offsets, rows_max: int) -> Offsets:
    """Ends that are at most this many offsets away; each partition advances by its share of the
    waiting messages.

    The shares are rounded down, and the remainder goes to the partitions that lost most by
    rounding, so that the limit is met exactly.
    """
    waiting = {
        (name, number): max(0, end - starts[name][number]) for name, partitions in ends.items() for number, end in partitions.items()
    }
    total = sum(waiting.values())
    if total <= rows_max:
        return ends
    shares = {place: rows_max * count // total for place, count in waiting.items()}
    left = rows_max - sum(shares.values())
    for place in sorted(waiting, key=lambda place: -(rows_max * waiting[place] % total))[:left]:
        shares[place] += 1
    return {name: {number: starts[name][number] + shares[name, number] for number in partitions} for name, partitions in ends.items()}
