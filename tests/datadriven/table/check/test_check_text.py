"""Checks numbers and files of a table, and compares the findings as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stream_app.model.bucket_id import BucketId
from stream_app.model.consumer import Consumer
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.finding import Finding
from stream_app.model.snapshot import CommitKind
from stream_app.planning.check.live_file_rules import (
    LiveFiles,
    bucket_count_findings,
    level_findings,
    placement_findings,
)
from stream_app.planning.check.version_rules import (
    RecordCounts,
    chain_findings,
    compaction_findings,
    count_findings,
    identity_findings,
)
from stream_app.table.check.chain_check import changelog_findings, consumer_findings
from stream_app.table.check.changelog_replay import VersionChanges, replay_range
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file, int_key_of
from tests.support.tables.numbered_snapshots import a_snapshot

HERE = Path(__file__).parent


def _show(findings: Iterable[Finding]) -> str:
    return (
        "\n".join(f"{finding.kind.value}: {finding.problem}" for finding in findings) or "nothing"
    )


def _number(case: Case, name: str) -> int | None:
    return int(case.args[name]) if name in case.args else None


def _chain(case: Case) -> str:
    numbers = _numbers(case, "snapshots")
    return _show(chain_findings(numbers, _number(case, "latest"), _number(case, "earliest"), "t"))


def _numbers(case: Case, name: str) -> list[int]:
    return [int(word) for word in case.args.get(name, "").split(",") if word]


def _changelogs(case: Case) -> str:
    hints = _number(case, "latest"), _number(case, "earliest")
    numbers, first = _numbers(case, "changelogs"), _number(case, "first-snapshot")
    return _show(changelog_findings(numbers, first, hints, "t"))


def _consumer(case: Case) -> str:
    following = int(case.args["next"])
    consumer = Consumer(consumer_id="c", next_snapshot_id=following, modification_time_ms=0)
    bounds = _number(case, "earliest"), _number(case, "latest")
    return _show(consumer_findings(consumer, *bounds, "t"))


_UNRECORDED = {
    "o": "is an OVERWRITE without a changelog",
    "r": "came back without changes",
}


def _replay(case: Case) -> str:
    """Versions ``number:producer``, without one ``none``; those with o and r have none."""
    changes = []
    for word in case.args.get("changes", "").split(","):
        number, _, producer = word.partition(":")
        if number:
            changes.append(
                VersionChanges(
                    snapshot_id=int(number.rstrip("or")),
                    reason_unrecorded=_UNRECORDED.get(number.strip("0123456789"), ""),
                    producer=producer or "none",
                )
            )
    return str(replay_range(changes, _numbers(case, "bases")))


def _epochs(case: Case) -> str:
    """Snapshots in order: ``KIND user identifier``."""
    snapshots = []
    for number, line in enumerate(case.input_lines, 1):
        kind, user, identifier = line.split()
        snapshots.append(
            replace(
                a_snapshot(number),
                commit_kind=CommitKind(kind),
                commit_user=user,
                commit_identifier=int(identifier),
            )
        )
    return _show(identity_findings(snapshots, "t"))


def _counts(case: Case) -> str:
    claimed_snapshot = replace(
        a_snapshot(1),
        total_record_count=_number(case, "total"),
        delta_record_count=_number(case, "delta"),
        changelog_record_count=_number(case, "changelog"),
    )
    names = ("found-total", "found-delta", "found-changelog")
    total, delta, changelog = (_number(case, name) for name in names)
    return _show(
        count_findings(
            claimed_snapshot,
            RecordCounts(total=total, delta=delta, changelog=changelog),
            "t",
        )
    )


def _compaction(case: Case) -> str:
    kind = CommitKind(case.args.get("kind", "COMPACT"))
    return _show(
        compaction_findings(replace(a_snapshot(4), commit_kind=kind), int(case.args["gained"]), "t")
    )


def _entry(line: str, kind: FileKind = FileKind.ADD) -> ManifestEntry:
    """``name level least-greatest [bucket/total]``."""
    name, level, keys, *place = line.split()
    least, _, greatest = keys.partition("-")
    bucket, _, total = (place[0] if place else "0/1").partition("/")
    file = a_file(name, level=int(level), keys=(int(least), int(greatest)))
    return ManifestEntry(
        kind=kind, partition=b"", bucket=int(bucket), total_buckets=int(total), file=file
    )


def _files(case: Case) -> str:
    live = LiveFiles()
    entries = [_entry(line) for line in case.input_lines]
    live.apply(entries)
    files = [entry.file for entry in entries]
    return _show(
        [
            *bucket_count_findings(live.total_buckets(b""), "t"),
            *placement_findings(entries, "t"),
            *level_findings(files, int_key_of, "t"),
        ]
    )


def _followed(case: Case) -> str:
    """Changes ``+ …`` and ``- …`` of one snapshot after another, parted by lines ``then``."""
    live, lines = LiveFiles(), []
    delta: list[ManifestEntry] = []
    for line in (*case.input_lines, "then"):
        if line == "then":
            impossible = live.apply(delta)
            names = " ".join(sorted(e.file.file_name for e in live.bucket(BucketId(b"", 0))))
            wrong = "".join(f", impossible: {e.kind.name} {e.file.file_name}" for e in impossible)
            lines.append(f"{names or 'none'} ({live.row_count} rows){wrong}")
            delta = []
            continue
        kind = FileKind.ADD if line[0] == "+" else FileKind.DELETE
        delta.append(_entry(line[2:], kind))
    return "\n".join(lines)


COMMANDS = {
    "chain": _chain, "epochs": _epochs, "counts": _counts, "compaction": _compaction,
    "files": _files, "followed": _followed,
    "changelogs": _changelogs, "consumer": _consumer, "replay": _replay,
}  # fmt: skip


def test_check_reports_what_is_wrong_with_snapshots_and_files() -> None:
    run_file(HERE / "check.txt", lambda case: COMMANDS[case.command](case))
