"""Computes how wrong a broker's clock can have been; the checkers of retention allow for that.

The broker has a clock that never falls (it goes at half speed where the wall clock is behind it),
begins no earlier than the last arrival, and for deleting trusts it only as long as it goes along
with the monotonic clock within a minute. This is a second, coarse model of that, made from what the
nemesis did to the wall clock. It says by how much the time to delete by can have been ahead of true
time, and it never says less than that. Schedules go by the clock that never falls, without the trust.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from itertools import accumulate
from math import inf

from bowstring.client.connection import HANDSHAKE_SECONDS
from tests.history.keeping import Clocks
from tests.history.lease_time import LeaseClocks
from tests.simulation.clock import START, WallClock
from tests.simulation.load import Load
from tests.simulation.options import Options

STEP_SECONDS = 0.25
DELAYS = 20
"""No message takes more delays than this: they are drawn exponentially."""
SLOW_OPERATIONS = 4
"""No answer waits for more operations of a slow disk than this."""
MARGIN_SECONDS = 0.5
ALLOWANCE = 1.0
"""By so much the clock of leases is behind the wall clock when an incarnation begins."""
BEGINNING_SECONDS = 1.0
"""The wall clock was read at most so long before an incarnation was seen to have begun."""
SLACK_SECONDS = 1e-5
TOLERANCE_SECONDS = 60.0 + 2 * MARGIN_SECONDS


def clocks_of(wall: WallClock, begun: list[float], drift: float, until: float) -> Clocks:
    """The bounds of the clock of a broker whose incarnations began at these moments."""
    times, trusted, steady = _ahead(wall.jumps, begun, until)
    lowest = min((offset for _, offset in wall.jumps), default=0.0)

    def bound(bounds: list[float], time: float) -> float:
        at = bisect_right(times, time)
        return MARGIN_SECONDS + drift * time + (bounds[at - 1] if at else 0.0)

    behind = MARGIN_SECONDS + drift * until + max(0.0, -lowest)
    return Clocks(START, partial(bound, trusted), behind, steady=partial(bound, steady))


def _ahead(jumps: list[tuple[float, float]], begun: list[float], until: float) -> tuple[list[float], list[float], list[float]]:
    """Moments, and the most that the time to delete by, and the broker's own, were ahead up to each."""
    events = sorted([(time, 0, offset) for time, offset in jumps] + [(time, 1, 0.0) for time in begun])
    steps = [(number * STEP_SECONDS, 2, 0.0) for number in range(int(until / STEP_SECONDS) + 1)]
    offset = steady = trusted = last = 0.0
    times: list[float] = []
    trusted_most: list[float] = [0.0]
    steady_most: list[float] = [0.0]
    for time, kind, value in sorted(events + steps):
        offset = value if kind == 0 else offset
        steady = max(offset, steady - (time - last) / 2)
        if kind == 1 or steady - trusted <= TOLERANCE_SECONDS:
            trusted = max(steady, 0.0) if kind == 1 else max(trusted, steady)
        last = time
        times.append(time)
        trusted_most.append(max(trusted_most[-1], trusted))
        steady_most.append(max(steady_most[-1], steady))
    return times, trusted_most[1:], steady_most[1:]


def lease_clocks_of(wall: WallClock, begun: list[float], options: Options) -> LeaseClocks:
    """The bounds of the clock of leases. Each incarnation sets it once, to the wall clock less the
    difference that two machines may have, or to the newest moment that a lease knows; then it runs
    with true time.
    """
    times = sorted(begun)
    offsets = [_wall_offsets(wall, time) for time in times]
    lowest = list(accumulate((low - ALLOWANCE for low, _ in offsets), min))
    highest = list(accumulate((high - ALLOWANCE for _, high in offsets), max))

    def bound(bounds: list[float], time: float) -> float:
        at = bisect_right(times, time)
        return bounds[max(0, at - 1)] if bounds else 0.0

    broken = options.clog_every or options.half_open or options.cut_rate or options.cut_every
    slow = SLOW_OPERATIONS * options.slow_seconds if options.slow_rate else 0.0  # the answer to an opening waits for the disk
    late = inf if broken else DELAYS * options.delay_seconds + slow
    return LeaseClocks(START, lambda time: bound(lowest, time), lambda time: bound(highest, time), SLACK_SECONDS, late)


def _wall_offsets(wall: WallClock, time: float) -> tuple[float, float]:
    """How far the wall clock was ahead of true time, at least and at most, while an incarnation
    began.
    """
    before = [offset for jumped, offset in wall.jumps if jumped <= time - BEGINNING_SECONDS][-1:] or [0.0]
    values = before + [offset for jumped, offset in wall.jumps if time - BEGINNING_SECONDS < jumped <= time]
    drifted = [time * wall.drift, (time - BEGINNING_SECONDS) * wall.drift]
    return min(values) + min(drifted), max(values) + max(drifted)


def late_seconds(options: Options) -> float:
    """By how much a kit's idea of the broker's time may be late: a handshake's way back, or what it
    waits for one at most.
    """
    if options.clog_every or options.half_open or options.cut_rate or options.cut_every:
        return HANDSHAKE_SECONDS
    return min(HANDSHAKE_SECONDS, DELAYS * options.delay_seconds)


def notice_seconds(options: Options, load: Load) -> float | None:
    """How long a notice takes to reach a reader, in a world where connections hold and the broker
    stays up.
    """
    faults = (options.clog_every, options.half_open, options.cut_rate, options.cut_every, options.crash_every, options.power_cut_every)
    broken = (options.sync_error_rate, options.write_error_rate, options.read_error_rate, options.full_every, options.disk_bytes)
    if any(faults) or any(broken) or load.stop_every or load.usurp_every:
        return None
    return DELAYS * options.delay_seconds + MARGIN_SECONDS
