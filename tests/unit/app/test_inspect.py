"""What inspect's modules hand to other screens."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from stream_app.app.inspect_levels import level_rows, levels_picture, run_rows
from stream_app.app.inspect_listing import size_text, time_text
from stream_app.app.inspect_options import option_rows
from stream_app.app.inspect_snapshots import snapshot_log, snapshot_rows
from tests.support.small_table import small_table


def drawn(renderable: object, width: int = 60) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_tall_level_0_is_shortened_in_the_picture(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    for number in range(20):
        small.commit(("+I", {"k": number, "v": "x"}))
    latest = small.table.snapshots.latest()
    (level,) = level_rows(small.table, latest)
    assert (level.level, level.runs, level.files, level.rows) == (0, 20, 20, 20)
    picture = drawn(levels_picture(run_rows(small.table, latest)))
    assert "bucket 0: 20 sorted runs" in picture
    assert picture.count("L0") == 8
    assert "… and 12 more" in picture
    assert drawn(levels_picture([])).strip() == ""


def test_the_log_is_drawn(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",))
    assert snapshot_rows(small.table) == []
    small.commit(("+I", {"k": 1, "v": "x"}))
    (row,) = snapshot_rows(small.table)
    assert (row.kind, row.identifier, row.delta_records, row.files_added) == ("APPEND", 0, 1, 1)
    assert "APPEND" in drawn(snapshot_log([row], title="log"), 200)


def test_options_say_whether_they_are_set(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t", "k INT, v STRING", ("k",), snapshot__num_retained__max=5)
    rows = {row.option: row for row in option_rows(table.table)}
    assert rows["bucket"].is_set
    assert rows["snapshot.num-retained.max"].meaning is None
    buffer = rows["write-buffer-size"]
    assert (buffer.value, buffer.is_set) == ("256.0 MiB", False)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**31, "2.0 GiB"), (2**50, "1024.0 TiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times() -> None:
    assert time_text(1_767_225_600_001) == "2026-01-01T00:00:00.001Z"
    assert time_text(-1, zone="") == "1969-12-31T23:59:59.999"
    assert time_text(None) is None
