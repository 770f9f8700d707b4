"""How much of what is there a micro-batch takes."""

from __future__ import annotations

from bowstring.spark.places import Offsets, Standings


def rows(starts: Offsets, ends: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, end - starts[name][number]) for name, partitions in ends.items() for number, end in partitions.items())


def size(starts: Offsets, ends: Offsets, standings: Standings) -> float:
    """How many bytes lie between, by the average of each topic."""
    return sum(rows({name: starts[name]}, {name: partitions}) * standings[name].row_bytes for name, partitions in ends.items())


def rows_of_bytes(starts: Offsets, ends: Offsets, standings: Standings, bytes_max: int) -> int:
    """How many offsets take so many bytes, by the average of each topic; at least one, because a stream has to get on."""
    total, waiting = rows(starts, ends), size(starts, ends, standings)
    return total if waiting <= bytes_max else max(1, int(total * bytes_max / waiting))


def advance(starts: Offsets, ends: Offsets, rows_max: int) -> Offsets:
    """Ends that are no more than so many offsets away, each partition advancing by its share of what waits.

    The shares are rounded down, and what is left goes to the partitions that lost most by that, so that the limit is met exactly.
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
