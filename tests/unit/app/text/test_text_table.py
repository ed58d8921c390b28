"""A text table aligns its columns."""

from __future__ import annotations

from rich.cells import cell_len

from stream_app.app.text.text_table import Column, text_lines, visible_text

COLUMNS = [Column("n", aligns_right=True), Column("text", width_max=10)]


def test_nothing_without_rows() -> None:
    assert list(text_lines(COLUMNS, [])) == []


def test_wide_characters_are_aligned_and_wide_values_cut() -> None:
    rows = [("1", "東京"), ("20", "a" * 11), ("3", None), ("4", "東京東京東京")]
    assert list(text_lines(COLUMNS, rows)) == [
        " n  text", "──  ──────────", " 1  東京", "20  aaaaaaaaa…", " 3  NULL", " 4  東京東京 …",
    ]  # fmt: skip


def test_memory_is_bounded_later_rows_are_cut_to_what_came_first() -> None:
    rows = ((str(n), "x" * (1 if n < 1000 else 9)) for n in range(100_000))
    lines = text_lines(COLUMNS, rows)
    widest = 0
    for number, line in enumerate(lines):
        widest = max(widest, cell_len(line))
        if number == 1500:
            assert line.endswith("xxx…")
    assert widest == len("999  text")


def test_control_characters_are_escaped() -> None:
    assert visible_text("a\x1b[31m\r\n\t\x7f\u202eb") == "a\\x1b[31m\\r\\n\\t\\x7f\\u202eb"
