"""The quarantine stores bad records whole, once for a repeated epoch, and obeys its limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import BadRecordsError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.quarantine.quarantine_writer import QuarantineReport, QuarantineWriter


def records(*rows: dict[str, Any]) -> pa.Table:
    full = [{"topic": "t", "partition": 0, "offset": 0, "reason": "why", **row} for row in rows]
    return pa.Table.from_pylist(full, schema=BAD_RECORD_SCHEMA)


def local(folder: Path) -> JobFolder:
    return JobFolder(str(folder), LocalFileIO())


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def test_a_record_is_kept_as_it_came(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    micros = 1_709_251_199_123_456  # as a float of seconds its milliseconds would be 122
    stamp = pa.array([micros, None], pa.timestamp("us", "UTC"))
    bad_records = records(
        {"partition": 3, "offset": 7, "key": b"k", "value": '{"é": "\u2028\n'.encode()},
        {"key": None, "value": b"\xff\x00"},
    ).set_column(3, BAD_RECORD_SCHEMA.field("timestamp"), stamp)
    QuarantineWriter(local(folder), None).write(12, bad_records)
    assert [file.name for file in folder.iterdir()] == ["epoch-12.jsonl"]
    assert lines_of(folder / "epoch-12.jsonl") == [
        {
            "topic": "t",
            "partition": 3,
            "offset": 7,
            "timestamp": 1_709_251_199_123,
            "reason": "why",
            "key": "k",
            "value": '{"é": "\u2028\n',
        },
        {
            "topic": "t",
            "partition": 0,
            "offset": 0,
            "timestamp": None,
            "reason": "why",
            "key": None,
            "value_base64": "/wA=",
        },
    ]


def test_an_epoch_that_is_done_again_is_there_once(tmp_path: Path) -> None:
    for _ in range(2):
        QuarantineWriter(local(tmp_path), None).write(3, records({"offset": 1}, {"offset": 2}))
    assert [file.name for file in tmp_path.iterdir()] == ["epoch-3.jsonl"]
    assert [line["offset"] for line in lines_of(tmp_path / "epoch-3.jsonl")] == [1, 2]


def test_records_of_another_checkpoint_are_not_overwritten(tmp_path: Path) -> None:
    for offset in (1, 2, 3):
        QuarantineWriter(local(tmp_path), None).write(0, records({"offset": offset}))
    offsets = {file.name: lines_of(file)[0]["offset"] for file in tmp_path.iterdir()}
    assert offsets == {"epoch-0.jsonl": 3, "epoch-0.old-1.jsonl": 1, "epoch-0.old-2.jsonl": 2}


def test_no_bad_records_no_file(tmp_path: Path) -> None:
    QuarantineWriter(local(tmp_path / "q"), 0).write(0, records())
    assert not (tmp_path / "q").exists()


def test_the_limit_counts_over_the_run_and_names_the_first_reasons(tmp_path: Path) -> None:
    writer = QuarantineWriter(local(tmp_path), 3)
    writer.write(0, records({}, {}))
    writer.write(1, records({}))
    with pytest.raises(BadRecordsError) as caught:
        writer.write(2, records({"offset": 40, "reason": "r0"}, *({"reason": "r"},) * 5))
    error = caught.value
    assert "9 records" in error.problem
    assert "3 are allowed" in error.problem
    assert error.where.startswith("topic t, partition 0, offset 40: r0; ")
    assert error.where.endswith(f"all of this epoch are in {tmp_path}/epoch-2.jsonl")
    assert "stream.max-bad-records" in error.fix
    assert len(lines_of(tmp_path / "epoch-2.jsonl")) == 6, "kept before the job stops"


def test_without_a_quarantine_the_first_one_stops_the_job() -> None:
    with pytest.raises(BadRecordsError) as caught:
        QuarantineWriter(None, 0).write(0, records({"reason": "r"}))
    assert caught.value.where == "topic t, partition 0, offset 0: r"


def test_the_summary_of_an_epochs_bad_records(tmp_path: Path) -> None:
    bad_records = records(
        {"partition": 2, "offset": 7, "reason": "is empty"}, {"reason": "column 'v' is wrong"},
        {"reason": "is not JSON: why"},
    )  # fmt: skip
    written = QuarantineWriter(local(tmp_path), None).write(4, bad_records)
    assert written == QuarantineReport(
        file=f"{tmp_path}/epoch-4.jsonl",
        first_text="topic t, partition 2, offset 7: is empty",
        reasons={"not-json": 2, "value": 1},
    )
    assert QuarantineWriter(local(tmp_path), None).write(5, records()) is None
