"""``stream-app quarantine`` lists, shows and drops records of a folder, and refuses the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.app.cli.main import main

FIRST = {
    "topic": "orders", "partition": 0, "offset": 7, "timestamp": 1_700_000_000_000,
    "reason": "is not JSON: Expecting value at character 0", "key": None, "value": "no json",
}  # fmt: skip
SECOND = FIRST | {"offset": 9, "timestamp": 1_700_000_060_000, "value_base64": "/w=="}
del SECOND["value"]
THIRD = FIRST | {
    "partition": 1, "offset": 3, "timestamp": None,
    "reason": "column 'v' (INT): \"x\" is not a value of that type", "key": '{"id":1}',
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "epoch-2.jsonl", FIRST, SECOND)
    write(tmp_path / "epoch-10.jsonl", THIRD)
    write(tmp_path / "epoch-2.old-1.jsonl", FIRST)  # a copy of a record is the same record
    return tmp_path


def write(file: Path, *records: dict[str, object]) -> None:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["quarantine", *map(str, words)]) == code
    output = capsys.readouterr()
    return output.out if code == 0 else output.err


def offsets(shown: str) -> list[int]:
    return [json.loads(line)["offset"] for line in shown.splitlines()]


def test_list_counts_by_reason_topic_and_partition(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "list", folder).splitlines() == [
        "reason    topic   partition  records  offsets  first                     last",
        "────────  ──────  ─────────  ───────  ───────  ────────────────────────  "
        "────────────────────────",
        "not-json  orders          0        2  7..9     2023-11-14T22:13:20.000Z  "
        "2023-11-14T22:14:20.000Z",
        "value     orders          1        1  3..3     NULL                      NULL",
    ]


def test_show_has_each_record_once_with_all_that_it_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "show", folder, "--offset", "3..8").splitlines() == [
        "topic orders, partition 0, offset 7, 2023-11-14T22:13:20.000Z (epoch-2.jsonl)",
        "  not-json: is not JSON: Expecting value at character 0",
        "  key:   null",
        "  value: no json",
        "topic orders, partition 1, offset 3 (epoch-10.jsonl)",
        "  value: column 'v' (INT): \"x\" is not a value of that type",
        '  key:   {"id":1}',
        "  value: no json",
    ]
    (line,) = run(capsys, "show", folder, "--offset", 9, "--format", "jsonl").splitlines()
    assert json.loads(line)["value_base64"] == "/w=="


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["--reason", "value"], [3]),
        (["--reason", "value", "--reason", "not-json"], [7, 9, 3]),
        (["--topic", "customers"], []),
        (["--partition", "0"], [7, 9]),
        (["--since", "2023-11-14 22:14:00Z"], [9]),
        (["--until", "2023-11-14 22:14:00Z"], [7]),
    ],
)
def test_conditions_choose_records(
    folder: Path, capsys: pytest.CaptureFixture[str], chosen: list[str], expected: list[int]
) -> None:
    assert offsets(run(capsys, "show", folder, "--format", "jsonl", *chosen)) == expected


def test_drop_removes_records_for_good(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dry = run(capsys, "drop", folder, "--offset", 7, "--dry-run").splitlines()
    assert dry == [f"drop 1 record of {folder}", "dry run: nothing was changed"]
    assert "dropped 1 record" in run(capsys, "drop", folder, "--offset", 7)
    assert not (folder / "epoch-2.old-1.jsonl").exists()
    assert "no json" not in (folder / "epoch-2.jsonl").read_text()
    write(folder / "epoch-2.jsonl", FIRST, SECOND)  # the epoch is repeated
    assert offsets(run(capsys, "show", folder, "--format", "jsonl")) == [9, 3]
    run(capsys, "drop", folder, "--all")
    assert run(capsys, "list", folder) == f"no record waits in {folder}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["list"], "name one quarantine"),
        (["drop", "FOLDER"], "no records are chosen for drop"),
        (["replay", "FOLDER", "--all"], "a replay needs the job's configuration"),
        (["show", "FOLDER", "--offset", "9..7"], "--offset 9..7 is not a range"),
        (["list", "gs://bucket/q"], "only Spark reaches the quarantine's file system"),
    ],
)
def test_wrong_arguments_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    arguments = [str(folder) if word == "FOLDER" else word for word in words]
    assert run(capsys, *arguments, code=2).startswith(complaint)


def test_another_file_of_that_name_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "epoch-0.jsonl").write_text('{"topic": "orders"}\n')
    assert "a line is not a record of a quarantine" in run(capsys, "list", tmp_path, code=2)


def test_list_of_a_database_names_its_tables(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("items", "orders"):
        (folder / name).mkdir()
    write(folder / "orders" / "epoch-1.jsonl", FIRST, THIRD)
    write(folder / "items" / "epoch-1.jsonl", FIRST)
    list_lines = run(capsys, "list", folder).splitlines()
    assert [line.split()[:5] for line in list_lines if "─" not in line] == [
        ["table", "reason", "topic", "partition", "records"],
        ["NULL", "not-json", "orders", "0", "2"],
        ["NULL", "value", "orders", "1", "1"],
        ["items", "not-json", "orders", "0", "1"],
        ["orders", "not-json", "orders", "0", "1"],
        ["orders", "value", "orders", "1", "1"],
    ]
    lines = run(capsys, "list", folder, "--format", "jsonl", "--reason", "value").splitlines()
    assert [json.loads(line)["table"] for line in lines] == [None, "orders"]
    assert offsets(run(capsys, "show", folder, "--table", "orders", "--format", "jsonl")) == [7, 3]


def test_records_that_wait_in_tables_are_not_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders").mkdir()
    write(tmp_path / "orders" / "epoch-1.jsonl", FIRST, THIRD)
    complaint = "such records wait in tables; choose one with --table: orders (2)"
    assert run(capsys, "show", tmp_path).splitlines() == [complaint]
    assert run(capsys, "drop", tmp_path, "--all").splitlines() == ["nothing to do", complaint]
    assert run(capsys, "drop", tmp_path, "--reason", "partition").splitlines() == ["nothing to do"]
    error_text = run(capsys, "list", tmp_path, "--table", "order", code=2)
    assert "the job has no table 'order'" in error_text
    assert "did you mean orders? name one of orders" in error_text


def test_a_folder_that_is_not_there_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["list"], ["show"], ["drop", "--all"]):
        error_text = run(capsys, words[0], tmp_path / "no", *words[1:], code=2)
        assert error_text.startswith("there is no such folder\n")
