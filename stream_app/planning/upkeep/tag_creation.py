"""Decides which automatic tags are due, their names, and which tags have expired.

Pure decisions; `table.upkeep.tag_upkeep` reads the snapshots and carries them out. Names are those
of periods: ``2026-01-31``, ``2026-01-31 07``.

Source: Paimon `tag/TagAutoCreation.java`, `tag/TagTimeExpire.java`, `tag/TagPeriodHandler.java`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stream_app.model.tag import Tag


@dataclass(frozen=True, slots=True)
class SnapshotTime:
    """A snapshot and its time for tags, on the wall clock; None: it has no watermark."""

    snapshot_id: int
    time_ms: int | None


@dataclass(frozen=True, slots=True)
class DueTag:
    """A tag to make."""

    name: str
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRules:
    """Automatic tagging of a table: whether, how often, by which clock.

    Attributes:
        delay_ms: how long a period waits after its end.
        completes: make the tags of periods without a snapshot, too.
        num_max: automatic tags to retain; None: all.
    """

    periods: TagPeriods
    delay_ms: int = 0
    completes: bool = False
    num_max: int | None = None


def first_snapshot(rules: TagRules, tags: Iterable[Tag]) -> tuple[int, int | None]:
    """The first snapshot to examine behind the newest automatic tag, and the next tag's period.

    The beginning of that period is None, and the snapshot 1, when there is none yet.
    """
    begun = [
        (begin, tag.snapshot.snapshot_id)
        for tag in tags
        if (begin := rules.periods.begin(tag.name)) is not None
    ]
    if not begun:
        return 1, None
    newest, snapshot_id = max(begun)
    return snapshot_id + 1, newest + rules.periods.period_ms


def due_tags(
    rules: TagRules, next_begin: int | None, snapshots: Sequence[SnapshotTime]
) -> list[DueTag]:
    """The tags that snapshots are due, each at most one.

    Args:
        next_begin: the begin of the period that has no tag yet; None: any that has ended is tagged.
        snapshots: those that were not examined yet, in order.
    """
    due = []
    for snapshot in snapshots:
        if snapshot.time_ms is None:
            continue
        period_ms = rules.periods.period_ms
        if next_begin is not None and snapshot.time_ms - rules.delay_ms < next_begin + period_ms:
            continue
        begin = rules.periods.last_ended(snapshot.time_ms)
        if rules.completes and next_begin is not None:
            begin = next_begin
        due.append(DueTag(rules.periods.name(begin), snapshot.snapshot_id))
        next_begin = begin + period_ms
    return due


def due_ms(rules: TagRules, next_begin: int | None) -> int | None:
    """The wall-clock time at which the next period waits for its tag; None: unknown."""
    return None if next_begin is None else next_begin + rules.periods.period_ms + rules.delay_ms


def lacks_snapshot(
    rules: TagRules, next_begin: int | None, newest: SnapshotTime | None, now_ms: int
) -> bool:
    """Whether a period is over, but no snapshot can have its tag.

    Args:
        next_begin: the begin of the period that has no tag yet.
        newest: the newest snapshot without a tag of its period; None: all have one, or come
            before one that has.
        now_ms: time of the wall clock.
    """
    due = due_ms(rules, next_begin)
    if due is None or now_ms < due:
        return False
    return newest is None or newest.time_ms is None or newest.time_ms < due


def surplus_tags(rules: TagRules, tags: Iterable[Tag]) -> list[str]:
    """The names of the oldest automatic tags beyond the retained number."""
    automatic = sorted(
        (tag.snapshot.snapshot_id, tag.name)
        for tag in tags
        if rules.periods.begin(tag.name) is not None
    )
    count = 0 if rules.num_max is None else max(0, len(automatic) - rules.num_max)
    return [name for _, name in automatic[:count]]


def expired_tags(tags: Iterable[Tag], wall_clock_ms: int) -> list[str]:
    """The names of the tags whose retention time has passed."""
    return [
        tag.name
        for tag in tags
        if tag.create_time_ms is not None
        and tag.time_retained_ms is not None
        and wall_clock_ms > tag.create_time_ms + tag.time_retained_ms
    ]


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
    """A way to name periods.

    Attributes:
        period_ms: the length of a period.
        pattern: the pattern of names, as `strftime` takes it.
        is_daily: names of days may have something behind a blank, which is passed over.
    """

    period_ms: int
    pattern: str
    is_daily: bool = False

    def name(self, begin_ms: int) -> str:
        """The tag of the period that begins at a time."""
        return (_EPOCH + timedelta(milliseconds=begin_ms)).strftime(self.pattern)

    def begin(self, name: str) -> int | None:
        """The begin of a tag's period; None if the name is not that of a period."""
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
