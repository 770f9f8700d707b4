"""The picture: for every figure that has a bar, how many times the bar it reached. SVG, in our own few lines.

The axis is logarithmic, so that twice the bar is as far to the right of it as half the bar is to the left; what is farther than ten times
ends at the edge. A figure that is to be small (CPU, memory, time) is turned round: to the right is always better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.table import Row

WIDTH, LINE, TOP, BOTTOM = 800, 19, 64, 24
LEFT, RIGHT = 330, 640
"""Where the axis begins and ends: to the left of it are titles, to the right the figures."""
REACH = 10.0
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
GREEN, RED, GREY, DARK = "#2e8b57", "#c0392b", "#d5d8dc", "#1c2833"


def draw(rows: Sequence[Row], title: str) -> str:
    """The whole picture. Lines without a judged bar are left out, unless one below belongs to them."""
    shown = _shown(rows)
    height = TOP + LINE * len(shown) + BOTTOM
    met, judged = sum(row.met is True for row in shown), sum(row.met is not None for row in shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{DARK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="42">{met} of {judged} bars met; to the right of the line is better than asked for</text>',
    ]
    parts += [part for tick in TICKS for part in _tick(tick, height)]
    parts += [part for number, row in enumerate(shown) for part in _line(row, TOP + LINE * number)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _shown(rows: Sequence[Row]) -> list[Row]:
    shown: list[Row] = []
    heading: Row | None = None
    parent: Row | None = None
    for row in rows:
        if row.is_heading:
            heading = row
        elif not row.work.startswith("  "):
            parent = row
        if row.reached is None:
            continue
        for above in (heading, parent):
            if above is not None and above is not row and above not in shown:
                shown.append(above)
        shown.append(row)
    return shown


def _across(times: float) -> float:
    """Where on the axis so many times the bar is."""
    bounded = min(max(times, 1 / REACH), REACH)
    return LEFT + (RIGHT - LEFT) * (math.log10(bounded) / math.log10(REACH) + 1) / 2


def _tick(times: float, height: int) -> list[str]:
    x, is_bar = _across(times), times == 1
    colour, width = (DARK, 1.5) if is_bar else (GREY, 1)
    label = "bar" if is_bar else f"{times:g} ×"
    return [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - BOTTOM + 6}" stroke="{colour}" stroke-width="{width}"/>',
        f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle" font-size="11">{label}</text>',
    ]


def _line(row: Row, y: int) -> list[str]:
    indent = 26 if row.work.startswith("  ") else 12
    weight = ' font-weight="bold"' if row.is_heading else ""
    parts = [f'<text x="{indent}" y="{y + 13}"{weight}>{escape(row.work.strip())}</text>']
    if row.reached is None:
        return parts
    begin, end = sorted((_across(1), _across(row.reached)))
    colour = GREEN if row.met else RED
    found = row.ratio if row.ratio and not row.bar.endswith("ms") else row.ours
    parts.append(f'<rect x="{begin:.1f}" y="{y + 3}" width="{max(end - begin, 1.5):.1f}" height="{LINE - 6}" fill="{colour}"/>')
    parts.append(f'<text x="{RIGHT + 12}" y="{y + 13}" fill="{colour}">{escape(f"{found} of {row.bar}")}</text>')
    return parts
