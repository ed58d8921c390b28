"""A backfill marks the quarantined records that it reads as done after its commit."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from stream_app.app.ops.backfill.covered_records import CoveredRecords
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.quarantine.quarantine_folder import Quarantine, open_quarantine


def keep(folder: Path, *records: tuple[int, str]) -> Quarantine:
    """A quarantine of records of partition 0, by offset and value."""
    folder.mkdir()
    lines = [
        {"topic": "t", "partition": 0, "offset": offset, "reason": "is bad", "key": None,
         "value": value}
        for offset, value in records
    ]  # fmt: skip
    (folder / "epoch-1.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return open_quarantine(str(folder), {})


def topic(first: int, *values: str, partition: int = 0) -> pa.RecordBatch:
    rows = [
        {"topic": "t", "partition": partition, "offset": offset, "value": value.encode()}
        for offset, value in enumerate(values, first)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def unresolved_offsets(folder: Quarantine, *committed_users: str) -> list[int]:
    return [record.offset for record in folder.unresolved_records(committed_users)]


def test_only_a_record_that_is_in_the_topic_as_it_is_kept_is_covered(tmp_path: Path) -> None:
    folder = keep(tmp_path / "q", (1, "a"), (2, "b"), (7, "c"))
    covered_records = CoveredRecords([folder])
    batches = [topic(0, "x", "a", "other"), topic(2, "b", partition=1)]
    assert list(covered_records.noting_covered(batches, ())) == batches
    assert covered_records.count == 1
    covered_records.mark("m", "backfill-m")
    assert unresolved_offsets(folder) == [1, 2, 7], "the commit is not there"
    assert unresolved_offsets(folder, "backfill-m") == [2, 7]
    covered_records.mark("m", "backfill-m", 5)
    assert unresolved_offsets(folder) == [2, 7]


def test_without_a_difference_there_is_no_commit_to_wait_for(tmp_path: Path) -> None:
    folders = [keep(tmp_path / "own", (0, "a")), keep(tmp_path / "whole", (1, "b"), (9, "z"))]
    covered_records = CoveredRecords([*folders, open_quarantine(str(tmp_path / "none"), {})])
    assert len(list(covered_records.noting_covered([topic(0, "a", "b", "c")], ()))) == 1
    covered_records.mark("m", "")
    assert [unresolved_offsets(folder) for folder in folders] == [[], [9]]
    assert not (tmp_path / "none").exists()
