"""Decides which tags are due for snapshots by their times, and names tags and periods, as text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from stream_app.model.consumer import Consumer
from stream_app.model.options.option import parse_duration_ms
from stream_app.model.tag import Tag
from stream_app.planning.upkeep.rollback_versions import rollback_versions
from stream_app.planning.upkeep.tag_creation import (
    SnapshotTime,
    TagPeriodRule,
    TagRules,
    due_tags,
    due_time_ms,
    expired_tags,
    lacks_snapshot,
    next_to_examine,
    surplus_tags,
    tag_period_rule,
)
from stream_app.planning.upkeep.unused_files import nearest_ids
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.numbered_snapshots import a_snapshot

HERE = Path(__file__).parent


def _millis(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def _time(millis: int | None) -> str:
    if millis is None:
        return "-"
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _period_rule(case: Case) -> TagPeriodRule:
    duration = case.args.get("duration")
    return tag_period_rule(
        case.args.get("period", "daily"),
        case.args.get("style", "with_dashes"),
        None if duration is None else parse_duration_ms(duration),
    )


def _rules(case: Case) -> TagRules:
    return TagRules(
        period_rule=_period_rule(case),
        delay_ms=parse_duration_ms(case.args.get("delay", "0 ms")),
        completes_periods="completes" in case.args,
        num_max=int(case.args["max"]) if "max" in case.args else None,
    )


def _tag(name: str, number: int, create_text: str = "", retain_text: str = "") -> Tag:
    return Tag(
        name=name,
        snapshot=a_snapshot(number),
        create_time_ms=_millis(create_text) if create_text else None,
        time_retained_ms=parse_duration_ms(retain_text) if retain_text else None,
    )


def _tags_and_times(case: Case) -> tuple[list[Tag], list[SnapshotTime]]:
    """Lines ``tag NAME = N`` that are there, and snapshots ``N TIME``; - is no watermark."""
    tags, snapshots = [], []
    for line in case.input_lines:
        if line.startswith("tag "):
            name, _, number = line.removeprefix("tag ").partition(" = ")
            tags.append(_tag(name, int(number)))
        else:
            number, _, text = line.partition(" ")
            snapshots.append(SnapshotTime(int(number), None if text == "-" else _millis(text)))
    return tags, snapshots


def _due(case: Case) -> str:
    rules, (tags, snapshots) = _rules(case), _tags_and_times(case)
    start, next_start = next_to_examine(rules, tags)
    due = due_tags(rules, next_start, [s for s in snapshots if s.snapshot_id >= start])
    lines = [f"snapshot {tag.snapshot_id}: {tag.name}" for tag in due]
    return "\n".join(lines) or "none"


def _lacks(case: Case) -> str:
    rules, (tags, snapshots) = _rules(case), _tags_and_times(case)
    start, next_start = next_to_examine(rules, tags)
    latest_snapshot = next((s for s in reversed(snapshots) if s.snapshot_id >= start), None)
    now, due = _millis(case.args["now"]), due_time_ms(rules, next_start)
    is_lacking = lacks_snapshot(rules, next_start, latest_snapshot, now)
    is_over = due is not None and due <= now
    return f"{'yes' if is_lacking else 'no'}, due {'since' if is_over else 'at'} {_time(due)}"


def _names(case: Case) -> str:
    period_rule = _period_rule(case)
    return "\n".join(f"{line}: {_time(period_rule.start_ms(line))}" for line in case.input_lines)


def _over(case: Case) -> str:
    """Lines ``NAME = N``, or ``NAME = N created TIME kept DURATION``."""
    tags = []
    for line in case.input_lines:
        name, _, rest = line.partition(" = ")
        words = rest.split()
        create_text, retain_text = (words[2], words[4]) if len(words) > 1 else ("", "")
        tags.append(_tag(name, int(words[0]), create_text, retain_text))
    over = surplus_tags(_rules(case), tags)
    if "now" in case.args:
        over += expired_tags(tags, _millis(case.args["now"]))
    return "\n".join(over) or "none"


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def _nearest(case: Case) -> str:
    numbers = _numbers(case.args["kept"])
    return " ".join(map(str, nearest_ids(int(case.args["going"]), numbers))) or "none"


def _rollback(case: Case) -> str:
    tag_words = (word.split(":") for word in case.args.get("tags", "").split(",") if word)
    ahead = (word.split(":") for word in case.args.get("consumers", "").split(",") if word)
    versions = rollback_versions(
        int(case.args["target"]),
        snapshot_ids=_numbers(case.args.get("snapshots", "")),
        changelog_ids=_numbers(case.args.get("changelogs", "")),
        tagged_ids={name: int(number) for name, number in tag_words},
        consumers=[
            Consumer(consumer_id=name, next_snapshot_id=int(number), modification_time_ms=0)
            for name, number in ahead
        ],
    )
    if versions.is_empty():
        return "nothing to do"
    lines = [
        ("written again", [versions.target_id] if versions.is_restored else []),
        ("snapshots", versions.snapshot_ids),
        ("changelogs", versions.changelog_ids),
        ("tags", versions.tag_names),
        ("cut consumers", [consumer.consumer_id for consumer in versions.consumers]),
    ]
    return "\n".join(f"{part}: {' '.join(map(str, going))}" for part, going in lines if going)


COMMANDS = {
    "due": _due, "lacks": _lacks, "names": _names, "over": _over, "nearest": _nearest,
    "rollback": _rollback,
}  # fmt: skip


def test_snapshots_are_tagged_and_tags_deleted_by_period() -> None:
    run_file(HERE / "tags.txt", lambda case: COMMANDS[case.command](case))


def test_a_rollback_deletes_later_versions_newest_first() -> None:
    run_file(HERE / "rollback.txt", lambda case: COMMANDS[case.command](case))
