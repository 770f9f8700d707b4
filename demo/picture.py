"""The last table as a picture: a bar for each window, a colour for each country."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

COLOURS = ("#2f6f8f", "#d98e2b", "#5a9367", "#a34a4a", "#7a6aa8", "#8c8c8c")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, LEGEND = 860, 420, 70, 50, 60, 90


class Total(NamedTuple):
    """A line of the table."""

    window: str
    country: str
    orders: int
    amount: float


def draw(totals: list[Total], title: str) -> str:
    """An SVG with a stacked bar for each window."""
    windows, countries = sorted({total.window for total in totals}), sorted({total.country for total in totals})
    amounts = {(total.window, total.country): total.amount for total in totals}
    highest = max((sum(amounts.get((window, country), 0) for country in countries) for window in windows), default=0) or 1
    step = (WIDTH - LEFT - LEGEND) / max(1, len(windows))
    scale = (HEIGHT - TOP - BOTTOM) / highest
    parts = [f'<text x="{LEFT}" y="32" font-size="20" font-weight="bold">{escape(title)}</text>', *_axis(highest, scale)]
    for number, window in enumerate(windows):
        x, y = LEFT + number * step + step * 0.1, float(HEIGHT - BOTTOM)
        for colour, country in enumerate(countries):
            height = amounts.get((window, country), 0) * scale
            y -= height
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{height:.1f}" fill="{_colour(colour)}"/>')
        parts.append(
            f'<text x="{x + step * 0.4:.1f}" y="{HEIGHT - BOTTOM + 20}" font-size="12" text-anchor="middle">{escape(window)}</text>'
        )
    for number, country in enumerate(countries):
        y = TOP + 24 * number
        parts.append(f'<rect x="{WIDTH - LEGEND + 20}" y="{y}" width="14" height="14" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{WIDTH - LEGEND + 42}" y="{y + 12}" font-size="14">{escape(country)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#333">'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>", ""])


def _axis(highest: float, scale: float) -> list[str]:
    lines: list[str] = []
    for part in range(5):
        amount = highest * part / 4
        y = HEIGHT - BOTTOM - amount * scale
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - LEGEND}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{amount:,.0f}</text>')
    return lines


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
