"""Inspect computes the values and pictures that other screens show as well."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from stream_app.app.inspect.bucket_trees import (
    NextCompactions,
    level_rows,
    levels_picture,
    next_compactions,
    sorted_run_rows,
    why_not_due,
)
from stream_app.app.inspect.table_listings import listing, option_rows
from stream_app.app.text.listing import size_text, time_text
from stream_app.table.opening import open_file_store_table
from tests.support.files.plain_object import plain_object
from tests.support.tables.small_table import small_table


def drawn_text(renderable: object, width: int = 60) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_tall_level_0_is_shortened_in_the_picture(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    for number in range(20):
        small.commit(("+I", {"k": number, "v": "x"}))
    latest = small.table.snapshots.latest()
    (level,) = level_rows(small.table, latest)
    assert (level.level, level.runs, level.files, level.rows) == (0, 20, 20, 20)
    planned_compactions = next_compactions(small.table, latest)
    picture = drawn_text(levels_picture(sorted_run_rows(small.table, latest), planned_compactions))
    assert "bucket 0: 20 sorted runs" in picture
    assert picture.count("L0") == 8
    assert "… and 12 more" in picture
    assert drawn_text(levels_picture([], planned_compactions)).strip() == ""


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        (1, "1 sorted run, the trigger is 5"),
        (4, "4 sorted runs, the trigger is 5"),
        (5, "5 sorted runs, as many as the trigger; it takes one more, or a newest run that is as "
            "large as the next"),
    ],
)  # fmt: skip
def test_why_nothing_is_due(runs: int, reason: str) -> None:
    assert why_not_due(runs, 5) == reason


def test_a_bucket_shows_its_next_compaction(tmp_path: Path) -> None:
    """A small run before a large one is not worth merging; one more makes a run too many."""
    small = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), write_only=True,
        num_sorted_run__compaction_trigger=2,
    )  # fmt: skip
    small.commit(*(("+I", {"k": k, "v": f"{k} " * 20}) for k in range(1000)))
    small.commit(("+I", {"k": 7, "v": "x"}))

    def inspected() -> tuple[str, list[str | None]]:
        latest = small.table.snapshots.latest()
        planned_compactions = next_compactions(small.table, latest)
        picture = drawn_text(
            levels_picture(sorted_run_rows(small.table, latest), planned_compactions), 200
        )
        rows = level_rows(small.table, latest, next_compactions=planned_compactions)
        return picture.rstrip().splitlines()[-1].strip(), [row.next for row in rows]

    assert inspected() == (f"nothing is due: {why_not_due(2, 2)}", [None])
    small.commit(("+I", {"k": 8, "v": "x" * 9}))
    line, levels = inspected()
    assert re.fullmatch(
        r"next: (size ratio|run count), levels 0 0 0 → 2, 3 files, .* KiB "
        r"\(by another job: the table is write-only\)",
        line,
    )
    assert levels == [line[6:].split(",")[0] + " → 2"]


def test_a_table_that_stream_app_does_not_compact(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    small.commit(("+I", {"k": 1, "v": "x"}))
    schema = Path(small.path, "schema", "schema-0")
    document = plain_object(schema.read_text())
    document["options"]["merge-engine"] = "newest"
    schema.write_text(json.dumps(document))
    table = open_file_store_table(small.path)
    planned_compactions = next_compactions(table, table.snapshots.latest())
    assert planned_compactions.of_bucket(("", 0), 1).startswith("not compacted by stream_app: ")


def test_keys_in_the_picture_are_cut_and_stay_on_their_line(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k STRING, v STRING", ("k",))
    small.commit(*(("+I", {"k": key, "v": "x"}) for key in ("a\nb", "z" * 100)))
    latest = small.table.snapshots.latest()
    picture = drawn_text(
        levels_picture(sorted_run_rows(small.table, latest), NextCompactions()), 200
    )
    assert f"keys a\\nb to {'z' * 23}…\n" in picture


def test_the_range_of_level_0_spans_all_its_files(tmp_path: Path) -> None:
    """The range compares values, not texts. Level 0 is in the order of time."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    for key in (5, 100, -3, 20):
        small.commit(("+I", {"k": key, "v": "x"}))
    [row] = level_rows(small.table, small.table.snapshots.latest())
    assert (row.min_key, row.max_key) == ("-3", "100")


def test_the_log_is_listed(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    assert listing("snapshots", small.table).rows == []
    small.commit(("+I", {"k": 1, "v": "x"}))
    log = listing("snapshots", small.table)
    (row,) = log.rows
    assert (row.kind, row.identifier, row.delta_records, row.files_added) == ("APPEND", 0, 1, 1)
    assert any("APPEND" in line for line in log.lines())


def test_options_say_whether_they_are_set(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "k INT, v STRING", ("k",), read__batch_size=5)
    rows = {row.option: row for row in option_rows(table.table)}
    assert rows["bucket"].is_set
    assert rows["read.batch-size"].meaning is None
    buffer = rows["write-buffer-size"]
    assert (buffer.value, buffer.is_set) == ("256.0 MiB", False)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**31, "2.0 GiB"), (2**50, "1024.0 TiB")],
)
def test_a_size_has_the_unit_that_suits_it(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_time_is_written_with_milliseconds() -> None:
    assert time_text(1_767_225_600_001) == "2026-01-01T00:00:00.001Z"
    assert time_text(-1, zone="") == "1969-12-31T23:59:59.999"
    assert time_text(None) is None
