"""Ages for people: two units at most."""

from __future__ import annotations


def age_text(seconds: float | None) -> str:
    """``95`` → ``1 min 35 s``."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, name, smaller, of in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {of}" if rest else "")
    return f"{whole} s"
