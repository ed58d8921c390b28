"""Decides what Iceberg's metadata contain, and compares the decisions as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stream_app.format.binary_row import serialize_row
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.iceberg_metadata import (
    EntryStatus,
    IcebergManifest,
    IcebergMetadata,
    IcebergSnapshot,
    ManifestContent,
)
from stream_app.model.options.core_options import CoreOptions
from stream_app.planning.iceberg.retained_history import (
    kept_snapshots,
    next_version,
    snapshot_operation,
)
from stream_app.planning.iceberg.rewritten_manifests import (
    ManifestMergeLimits,
    full_manifest_entry_count,
    manifests_to_merge,
)
from stream_app.planning.iceberg.visible_files import (
    IcebergLevels,
    iceberg_levels,
    unseen_rows,
    visible_changes,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file

HERE = Path(__file__).parent
_KILOBYTE = 1024
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}


def entry_of(line: str) -> ManifestEntry:
    """``+a L1``: file a is added at level 1."""
    name, level = line.split()
    return ManifestEntry(
        kind=FileKind.ADD if name[0] == "+" else FileKind.DELETE,
        partition=serialize_row([], ()),
        bucket=0,
        total_buckets=1,
        file=a_file(name[1:], level=int(level[1:])),
    )


def snapshot(number: int) -> IcebergSnapshot:
    return IcebergSnapshot(
        snapshot_id=number, parent_id=None, sequence_number=number, time_ms=number,
        manifest_list=f"list-{number}", schema_id=0, summary={},
    )  # fmt: skip


def version(number: int) -> IcebergMetadata:
    return IcebergMetadata(
        version=number, format_version=2, table_uuid="u", location="t", schemas={},
        last_column_id=1, partition_fields=(), snapshots=(snapshot(number),),
    )  # fmt: skip


def manifest(number: int, live: int) -> IcebergManifest:
    counts = {status: 0 for status in EntryStatus} | {EntryStatus.EXISTING: live}
    return IcebergManifest(
        path=str(number), length=_KILOBYTE, content=ManifestContent.DATA, sequence_number=1,
        min_sequence_number=1, snapshot_id=1, file_counts=counts, row_counts=counts,
    )  # fmt: skip


def run(case: Case) -> str:
    match case.command:
        case "visible":
            return visible(case)
        case "unseen":
            return unseen(case)
        case "full":
            return "\n".join(str(full_manifest_entry_count(int(line))) for line in case.input_lines)
        case "merge":
            return merge(case)
        case "kept":
            listed_snapshots = [snapshot(int(word)) for word in case.input_lines[0].split()]
            retained_snapshots = kept_snapshots(
                listed_snapshots, int(case.args["earliest"]), {int(case.args["tagged"])}
            )
            return " ".join(str(snapshot.snapshot_id) for snapshot in retained_snapshots)
        case "version":
            pairs = (line.split() for line in case.input_lines)
            return "\n".join(
                str(next_version(None if base == "none" else version(int(base)), int(number)))
                for base, number in pairs
            )
        case "operation":
            return "\n".join(
                snapshot_operation(
                    has_added="added" in words,
                    has_removed="removed" in words,
                    keeps_rows="same-rows" in words,
                )
                for words in map(str.split, case.input_lines)
            )
    raise AssertionError(case.command)


def levels_of(case: Case) -> IcebergLevels:
    options = {"num-levels": "6", **(VECTORS if case.args["vectors"] == "yes" else {})}
    return iceberg_levels(CoreOptions(options), merges_by_key=case.args["key"] == "yes")


def unseen(case: Case) -> str:
    """Each line is a file: ``BUCKET LEVEL ROWS TIME``."""
    live = [
        replace(entry_of(f"+f {level}"), bucket=int(bucket), file=a_file(
            level=int(level[1:]), row_count=int(rows), creation_time_ms=int(time)
        ))
        for bucket, level, rows, time in map(str.split, case.input_lines)
    ]  # fmt: skip
    lack = unseen_rows(live, levels_of(case))
    return f"{lack.row_count} rows in {lack.bucket_count} buckets, seen at {lack.seen_time_ms}"


def visible(case: Case) -> str:
    levels = levels_of(case)
    entries = map(entry_of, case.input_lines)
    changes = visible_changes(entries, levels, lambda entry: entry.file.file_name)
    lines = ("added", *sorted(changes.added_entries)), ("removed", *sorted(changes.removed_paths))
    return "\n".join(map(" ".join, lines))


def merge(case: Case) -> str:
    rule = ManifestMergeLimits(
        target_size=_KILOBYTE * _KILOBYTE,
        count_min=int(case.args["min"]),
        count_max=int(case.args["max"]),
    )
    manifests = [
        manifest(index, int(word)) for index, word in enumerate(case.input_lines[0].split())
    ]
    merged_manifests = manifests_to_merge(manifests, rule, int(case.args["full"]))
    return " ".join(file.path for file in merged_manifests) or "none"


def test_iceberg_metadata_is_planned() -> None:
    run_file(HERE / "iceberg.txt", run)
