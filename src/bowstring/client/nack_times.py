"""When a nacked message comes again: what a program may give, and how it travels.

A time is one number: a moment of the broker's clock in microseconds, or a span if it is negative, or
0 if none was given. The broker counts a span from when the nack arrives, so a message never comes
early by the program's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bowstring import errors, times

if TYPE_CHECKING:
    from bowstring.client.leased_page import LeasedPage

NEVER: Final = 1 << 62
AT_ONCE: Final = 1
"""A moment that has passed: no backoff counts."""


def nack_time(delay: Any, at: Any) -> int:
    """The time of a nack, from its arguments. Raises InvalidArgument."""
    moment = times.delivery(delay, at, 0)
    if moment is None:
        return 0
    return max(moment, AT_ONCE) if delay is None or not moment else -moment


def check_kept(page: LeasedPage, rows: npt.NDArray[np.intp], time: int) -> None:
    """Raises InvalidArgument if one of the rows is not kept until then."""
    if not len(rows):
        return
    moment = time if time > 0 else page.settlements.broker_now() - time
    kept = page.kept_until()[rows]
    early = np.flatnonzero(kept < moment)
    if len(early):
        first = int(early[0])
        raise not_kept(f"{page.topic}/{page.partition}@{int(page.offsets[rows[first]])}", int(kept[first]))


def not_kept(place: str, until: int) -> errors.InvalidArgument:
    """The error for a message that is gone when it was to come again."""
    text = times.to_text(until)
    return errors.InvalidArgument(
        f"{place} is kept until {text}, and was to come again later.",
        hint="Use an earlier moment, or a topic that keeps its messages for longer (retention=).",
        details={"until": text},
    )


def moments_or(column: pa.Array, otherwise: int) -> npt.NDArray[np.int64]:
    """A column of moments as numbers, with another one where there is none."""
    return column.cast(pa.int64()).fill_null(otherwise).to_numpy(zero_copy_only=False)
