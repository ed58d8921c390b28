"""Draws curves as SVG: the cost of an epoch by the size of a table, with logarithmic axes."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

_LEFT, _TOP, _WIDTH, _HEIGHT, _RIGHT = 70, 66, 560, 240, 60
_COLOURS = ("#2f6db5", "#c0582b", "#4a9a4a", "#7a5ab5")


def curves(
    title: str, x_title: str, points: Sequence[int], values: Mapping[str, Sequence[float]]
) -> str:
    """Return a picture with a curve for each name.

    Args:
        x_title: the unit of the points.
        points: the ascending positions on the x axis, [n].
        values: name → seconds at the first points, [n] or fewer.
    """
    seconds = [value for curve in values.values() for value in curve]
    min_power, max_power = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    first, last = math.log10(points[0]), math.log10(points[-1])

    def x(point: int) -> float:
        return _LEFT + _WIDTH * (math.log10(point) - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (max_power - math.log10(value)) / ((max_power - min_power) or 1)

    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + 54
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="sans-serif" font-size="13" aria-label="{html.escape(title)}">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="22">{html.escape(title)}'
        "</text>",
        f'<text x="{_LEFT + _WIDTH / 2:.0f}" y="{height - 10}" text-anchor="middle">'
        f"{html.escape(x_title)}</text>",
    ]
    for power in range(min_power, max_power + 1):
        grid_y = y(10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" y1="{grid_y:.1f}" x2="{_LEFT + _WIDTH}" y2="{grid_y:.1f}" '
            f'stroke="#ddd"/><text x="{_LEFT - 8}" y="{grid_y + 4:.1f}" text-anchor="end">'
            f"{10.0**power:g} s</text>"
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
        line = " ".join(f"{dot_x:.1f},{dot_y:.1f}" for dot_x, dot_y in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for index, ((dot_x, dot_y), value) in enumerate(zip(dots, curve, strict=True)):
            point_values = [other[index] for other in values.values() if index < len(other)]
            label_y = dot_y + (18 if value == min(point_values) else -8)
            parts.append(
                f'<circle cx="{dot_x:.1f}" cy="{dot_y:.1f}" r="3" fill="{colour}"/>'
                f'<text x="{dot_x:.1f}" y="{label_y:.1f}" text-anchor="middle" fill="{colour}">'
                f"{value:.2f}</text>"
            )
    return "\n".join([*parts, "</svg>", ""])
