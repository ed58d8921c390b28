"""Curves as SVG: what an epoch costs by what a table has, both axes logarithmic."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

_LEFT, _TOP, _WIDTH, _HEIGHT, _RIGHT = 70, 66, 560, 240, 60
_COLOURS = ("#2f6db5", "#c0582b", "#4a9a4a", "#7a5ab5")


def curves(
    title: str, across: str, points: Sequence[int], values: Mapping[str, Sequence[float]]
) -> str:
    """A picture with a curve for each name.

    Args:
        across: what the points count.
        points: ascending, [n].
        values: seconds by name, [n] or fewer: the first points.
    """
    seconds = [value for curve in values.values() for value in curve]
    low, high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    first, last = math.log10(points[0]), math.log10(points[-1])

    def x(point: int) -> float:
        return _LEFT + _WIDTH * (math.log10(point) - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (high - math.log10(value)) / ((high - low) or 1)

    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + 54
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="13" aria-label="{html.escape(title)}">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="22">{html.escape(title)}'
        "</text>",
        f'<text x="{_LEFT + _WIDTH / 2:.0f}" y="{height - 10}" text-anchor="middle">'
        f"{html.escape(across)}</text>",
    ]
    for power in range(low, high + 1):
        up = y(10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" y1="{up:.1f}" x2="{_LEFT + _WIDTH}" y2="{up:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 8}" y="{up + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>'
        )
    for point in points:
        parts.append(
            f'<text x="{x(point):.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{point:,}'
            "</text>"
        )
    for number, ((name, curve), colour) in enumerate(zip(values.items(), _COLOURS, strict=False)):
        parts.append(
            f'<text x="{_LEFT + 140 * number}" y="42" fill="{colour}">{html.escape(name)}</text>'
        )
        dots = [(x(point), y(value)) for point, value in zip(points, curve, strict=False)]
        line = " ".join(f"{right:.1f},{up:.1f}" for right, up in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for index, ((right, up), value) in enumerate(zip(dots, curve, strict=True)):
            others = [other[index] for other in values.values() if index < len(other)]
            beside = 18 if value == min(others) else -8
            parts.append(
                f'<circle cx="{right:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>'
                f'<text x="{right:.1f}" y="{up + beside:.1f}" text-anchor="middle" fill="{colour}">'
                f"{value:.2f}</text>"
            )
    return "\n".join([*parts, "</svg>", ""])
