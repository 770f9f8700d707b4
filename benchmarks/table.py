"""One line of the table of figures, and how it is held against its bar."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table. A title that begins with two blanks belongs to the line above."""

    work: str
    ours: str
    peer: str = ""
    ratio: str = ""
    bar: str = ""
    reached: float | None = None
    """How many times the bar was reached: 1 and more is met. None where there is no bar, or nothing to judge it by."""
    is_heading: bool = False
    """Only a title, for the lines below it."""

    @property
    def met(self) -> bool | None:
        return None if self.reached is None else self.reached >= 1


def heading(title: str) -> Row:
    return Row(title, "", is_heading=True)


def most(title: str, value: float, bar: float, unit: str, digits: int = 2) -> Row:
    """A line whose value must not be more than its bar."""
    return Row(title, f"{value:.{digits}f} {unit}", bar=f"≤ {bar:g} {unit}", reached=bar / value)


def least(title: str, value: float, bar: float) -> Row:
    """A line whose value, a share, must not be less than its bar."""
    return Row(title, "", ratio=f"{value:.2f}", bar=f"≥ {bar:g}", reached=value / bar)


def speed(per_second: float | None) -> str:
    if per_second is None:
        return ""
    return f"{per_second / 1e6:.2f} M/s" if per_second >= 100_000 else f"{per_second:,.0f}/s"


def times(ours: float, theirs: float | None) -> str:
    return f"{ours / theirs:.2f} ×" if theirs else ""


def beside(title: str, ours: float, theirs: float | None, bar: float | None = None) -> Row:
    """A line of two speeds, of which ours must be at least so many times the peer's."""
    reached = ours / theirs / bar if theirs and bar else None
    return Row(title, speed(ours), speed(theirs), times(ours, theirs), f"≥ {bar:g} ×" if bar else "", reached)
