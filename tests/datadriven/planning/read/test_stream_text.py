"""A streaming read plans where it begins, what it reads of a snapshot, and how far a step goes.

For `take`, each line is a split of one snapshot, with the sizes of its files in bytes. Each file
has ten rows.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.errors import UsageError
from stream_app.model.files.data_split import DataSplit, StreamContent, StreamSplit
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.scan_options import SCAN_TIMESTAMP_MILLIS
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.traits.changelog_producer import producer_traits
from stream_app.planning.read.stream_start import start_of_options
from stream_app.planning.read.stream_step import (
    AdmittedSplits,
    StepLimits,
    follow_up,
    full_level_min,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file

HERE = Path(__file__).parent


def a_snapshot(kind: str, changelog: bool) -> Snapshot:
    return Snapshot(
        snapshot_id=1,
        schema_id=0,
        base_manifest_list="base",
        base_manifest_list_size=1,
        delta_manifest_list="delta",
        delta_manifest_list_size=1,
        changelog_manifest_list="changelog" if changelog else None,
        changelog_manifest_list_size=1 if changelog else None,
        index_manifest=None,
        commit_user="tester",
        commit_identifier=1,
        commit_kind=CommitKind(kind),
        time_ms=0,
        total_record_count=0,
        delta_record_count=0,
        changelog_record_count=0,
        watermark=None,
        statistics=None,
        properties=None,
        next_row_id=None,
    )


def a_split(line: str) -> StreamSplit:
    files = tuple(a_file(size, file_size=int(size), row_count=10) for size in line.split())
    split = DataSplit(snapshot_id=1, schema_id=0, partition=b"", bucket=0, files=files, is_raw=True)
    return StreamSplit(split=split, content=StreamContent.CHANGES, commit_time_ms=0)


def start(case: Case) -> str:
    options = CoreOptions(dict(line.split("=") for line in case.input_lines))
    try:
        start = start_of_options(options, options[SCAN_TIMESTAMP_MILLIS])
    except UsageError as error:
        return str(error)
    fields = {"snapshot": start.snapshot_id, "millis": start.timestamp_ms}
    words = [f"{name}={value}" for name, value in fields.items() if value is not None]
    return " ".join([start.mode.value, *words])


def means(case: Case) -> str:
    lines = []
    for line in case.input_lines:
        kind, *words = line.split()
        next_step = follow_up(
            a_snapshot(kind, "changelog" in words),
            has_changelog=producer_traits(case.args["producer"]).writes_changelog,
            reads_overwrites="overwrites" in case.args,
        )
        lines.append(f"{line}: {next_step.value}")
    return "\n".join(lines)


def level(case: Case) -> str:
    return str(full_level_min(producer_traits(case.args["producer"]), int(case.args["levels"])))


def take(case: Case) -> str:
    names = {"snapshots": "snapshots_max", "files": "files_max", "bytes": "bytes_max"}
    names["rows"] = "rows_max"
    limits = {names[name]: int(value) for name, value in case.args.items()}
    admitted_splits, lines, ends = AdmittedSplits(StepLimits(**limits)), [], False
    for line in case.input_lines:
        if ends or admitted_splits.is_full:
            lines.append(f"{line}: not looked at")
            continue
        splits = [a_split(part) for part in line.split("|")]
        admitted_splits, count = admitted_splits.admit(splits)
        ends = count < len(splits)
        lines.append(f"{line}: {count} of {len(splits)}")
    return "\n".join(lines)


COMMANDS = {command.__name__: command for command in (start, means, level, take)}


def test_streaming_reads() -> None:
    run_file(HERE / "stream.txt", lambda case: COMMANDS[case.command](case))
