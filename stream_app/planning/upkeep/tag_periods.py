"""Names and times of tags that are given by period: ``2026-01-31``, ``2026-01-31 07``.

A tag is named by the beginning of its period. Times are milliseconds of a clock on the wall, read
as if it were UTC.

Source: Paimon `tag/TagPeriodHandler.java`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_PATTERNS = {
    ("daily", "with_dashes"): "%Y-%m-%d",
    ("daily", "without_dashes"): "%Y%m%d",
    ("daily", "without_dashes_and_spaces"): "%Y%m%d",
    ("hourly", "with_dashes"): "%Y-%m-%d %H",
    ("hourly", "without_dashes"): "%Y%m%d %H",
    ("hourly", "without_dashes_and_spaces"): "%Y%m%d%H",
}
_DIGITS = {"%Y": r"\d{4}", "%m": r"\d{2}", "%d": r"\d{2}", "%H": r"\d{2}", "%M": r"\d{2}"}


@dataclass(frozen=True, slots=True)
class TagPeriods:
    """One way to name periods.

    Attributes:
        period_ms: the length of a period.
        pattern: of names, as `strftime` takes it.
        is_daily: names of days may have something behind a blank, which is passed over.
    """

    period_ms: int
    pattern: str
    is_daily: bool = False

    def name(self, begin_ms: int) -> str:
        """The tag of the period that begins then."""
        return (_EPOCH + timedelta(milliseconds=begin_ms)).strftime(self.pattern)

    def begin(self, name: str) -> int | None:
        """When the period of a tag begins; None when nobody would name a period so."""
        text = name.split(" ", maxsplit=1)[0] if self.is_daily else name
        form = self.pattern
        for directive, digits in _DIGITS.items():
            form = form.replace(directive, digits)
        if not re.fullmatch(form, text, re.ASCII):
            return None
        try:
            at = datetime.strptime(text, self.pattern).replace(tzinfo=UTC)
        except ValueError:  # the 30th of February
            return None
        return round((at - _EPOCH) / timedelta(milliseconds=1))

    def last_ended(self, time_ms: int) -> int:
        """The beginning of the last period that has ended at a time."""
        return time_ms // self.period_ms * self.period_ms - self.period_ms


def tag_periods(period: str, style: str, duration_ms: int | None) -> TagPeriods:
    """The periods of the options ``tag.creation-period``, ``.period-formatter``, ``-duration``."""
    if duration_ms is not None:
        return TagPeriods(duration_ms, "%Y%m%d%H%M")
    if period == "two-hours":
        return TagPeriods(2 * _HOUR_MS, _PATTERNS["hourly", "with_dashes"])
    is_daily = period == "daily"
    return TagPeriods(_DAY_MS if is_daily else _HOUR_MS, _PATTERNS[period, style], is_daily)
