"""Decides which automatic tags are due, their names, and which tags have expired.

Pure. `table.upkeep.tag_upkeep` reads the snapshots and executes the decisions. Tags have the names
of periods: ``2026-01-31``, ``2026-01-31 07``.

Source: Paimon `tag/TagAutoCreation.java`, `tag/TagTimeExpire.java`, `tag/TagPeriodHandler.java`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stream_app.model.tag import Tag

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
class TagPeriodRule:
    """A rule for the names of periods.

    Attributes:
        period_ms: the length of a period.
        pattern: the pattern of names for `strftime`.
        is_daily: whether periods are days, whose names may have an ignored suffix after a blank.
    """

    period_ms: int
    pattern: str
    is_daily: bool = False

    def name(self, start_ms: int) -> str:
        """Return the tag of the period that begins at a time."""
        return (_EPOCH + timedelta(milliseconds=start_ms)).strftime(self.pattern)

    def start_ms(self, name: str) -> int | None:
        """Return the start of a tag's period; None if the name is not that of a period."""
        text = name.split(" ", maxsplit=1)[0] if self.is_daily else name
        pattern = self.pattern
        for directive, digits in _DIGITS.items():
            pattern = pattern.replace(directive, digits)
        if not re.fullmatch(pattern, text, re.ASCII):
            return None
        try:
            start = datetime.strptime(text, self.pattern).replace(tzinfo=UTC)
        except ValueError:  # the 30th of February
            return None
        return round((start - _EPOCH) / timedelta(milliseconds=1))

    def last_ended_start_ms(self, time_ms: int) -> int:
        """Return the start of the last period that has ended at a time."""
        return time_ms // self.period_ms * self.period_ms - self.period_ms


@dataclass(frozen=True, slots=True)
class SnapshotTime:
    """A snapshot and its wall-clock time for tags; None without a watermark."""

    snapshot_id: int
    time_ms: int | None


@dataclass(frozen=True, slots=True)
class DueTag:
    """A tag to create."""

    name: str
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRules:
    """The rules of a table's automatic tagging.

    Attributes:
        delay_ms: the time for which a period's tag waits after the period's end.
        completes_periods: whether to create tags of periods without a snapshot too.
        num_max: the number of automatic tags to retain; None: all.
    """

    period_rule: TagPeriodRule
    delay_ms: int = 0
    completes_periods: bool = False
    num_max: int | None = None


def next_to_examine(rules: TagRules, tags: Iterable[Tag]) -> tuple[int, int | None]:
    """Return the first snapshot to examine after the newest automatic tag, and the next period.

    Without an automatic tag, these are snapshot 1, and None for the start of the period.
    """
    tagged_starts = [
        (start_ms, tag.snapshot.snapshot_id)
        for tag in tags
        if (start_ms := rules.period_rule.start_ms(tag.name)) is not None
    ]
    if not tagged_starts:
        return 1, None
    newest_start_ms, snapshot_id = max(tagged_starts)
    return snapshot_id + 1, newest_start_ms + rules.period_rule.period_ms


def due_tags(
    rules: TagRules, next_start_ms: int | None, snapshot_times: Sequence[SnapshotTime]
) -> list[DueTag]:
    """Return the due tags, at most one for each snapshot.

    Args:
        next_start_ms: the start of the first period without a tag; None to tag any period that has
            ended.
        snapshot_times: the snapshots that were not examined yet, in order.
    """
    tags = []
    for snapshot_time in snapshot_times:
        if snapshot_time.time_ms is None:
            continue
        period_ms = rules.period_rule.period_ms
        if (
            next_start_ms is not None
            and snapshot_time.time_ms - rules.delay_ms < next_start_ms + period_ms
        ):
            continue
        start_ms = rules.period_rule.last_ended_start_ms(snapshot_time.time_ms)
        if rules.completes_periods and next_start_ms is not None:
            start_ms = next_start_ms
        tags.append(DueTag(rules.period_rule.name(start_ms), snapshot_time.snapshot_id))
        next_start_ms = start_ms + period_ms
    return tags


def due_time_ms(rules: TagRules, next_start_ms: int | None) -> int | None:
    """Return the wall-clock time at which the next period's tag is due; None if unknown."""
    return (
        None
        if next_start_ms is None
        else next_start_ms + rules.period_rule.period_ms + rules.delay_ms
    )


def lacks_snapshot(
    rules: TagRules,
    next_start_ms: int | None,
    latest_snapshot_time: SnapshotTime | None,
    now_ms: int,
) -> bool:
    """Return whether a period is over, but no snapshot can get its tag.

    Args:
        next_start_ms: the start of the first period without a tag.
        latest_snapshot_time: the latest snapshot without a tag of its period; None if all have
            one, or precede one that has.
        now_ms: the wall-clock time.
    """
    tag_due_time_ms = due_time_ms(rules, next_start_ms)
    if tag_due_time_ms is None or now_ms < tag_due_time_ms:
        return False
    return (
        latest_snapshot_time is None
        or latest_snapshot_time.time_ms is None
        or latest_snapshot_time.time_ms < tag_due_time_ms
    )


def surplus_tags(rules: TagRules, tags: Iterable[Tag]) -> list[str]:
    """Return the names of the oldest automatic tags beyond the retained number."""
    automatic_tags = sorted(
        (tag.snapshot.snapshot_id, tag.name)
        for tag in tags
        if rules.period_rule.start_ms(tag.name) is not None
    )
    count = 0 if rules.num_max is None else max(0, len(automatic_tags) - rules.num_max)
    return [name for _, name in automatic_tags[:count]]


def expired_tags(tags: Iterable[Tag], wall_clock_ms: int) -> list[str]:
    """Return the names of the tags whose retention time has passed."""
    return [
        tag.name
        for tag in tags
        if tag.create_time_ms is not None
        and tag.time_retained_ms is not None
        and wall_clock_ms > tag.create_time_ms + tag.time_retained_ms
    ]


def tag_period_rule(period: str, style: str, duration_ms: int | None) -> TagPeriodRule:
    """Return the rule of ``tag.creation-period``, ``.period-formatter``, ``-duration``."""
    if duration_ms is not None:
        return TagPeriodRule(duration_ms, "%Y%m%d%H%M")
    if period == "two-hours":
        return TagPeriodRule(2 * _HOUR_MS, _PATTERNS["hourly", "with_dashes"])
    is_daily = period == "daily"
    return TagPeriodRule(_DAY_MS if is_daily else _HOUR_MS, _PATTERNS[period, style], is_daily)
