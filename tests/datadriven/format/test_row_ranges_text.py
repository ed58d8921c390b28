"""Interprets row_ranges.txt."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.format.parquet.row_ranges import (
    RowRange,
    pages_of_parts,
    pages_with,
    part_starts,
    positions_among,
    ranges_of,
    ranges_of_rows,
    windows,
)
from tests.support.suite.datadriven import Case, run_file


def numbers_in(text: str) -> Int64s:
    return np.array([int(word) for word in text.replace(",", " ").split()], np.int64)


def ranges_in(text: str) -> list[RowRange]:
    pairs = (word.split("-") for word in text.replace(",", " ").split())
    return [RowRange(int(start), int(end)) for start, end in pairs]


def ranges_text(ranges: list[RowRange]) -> str:
    return " ".join(f"{start}-{end}" for start, end in ranges) or "none"


def parts(case: Case) -> str:
    """A line of the input is a column: the first row of each of its pages."""
    columns = [numbers_in(line) for line in case.input_lines]
    starts = part_starts(columns)
    lines = [f"parts at {' '.join(map(str, starts))}"]
    lines += [f"pages {' '.join(map(str, pages_of_parts(column, starts)))}" for column in columns]
    return "\n".join(lines)


def ranges(case: Case) -> str:
    is_wanted = [word == "+" for word in case.args["wanted"]]
    return ranges_text(ranges_of(numbers_in(case.args["parts"]), int(case.args["rows"]), is_wanted))


def of_rows(case: Case) -> str:
    return ranges_text(ranges_of_rows(numbers_in(case.args["rows"]), int(case.args["gap"])))


def pages(case: Case) -> str:
    """The pages that have rows of the ranges, and where each range begins in them."""
    starts, rows = numbers_in(case.args["pages"]), int(case.args["rows"])
    wanted_ranges = ranges_in(case.args["ranges"])
    numbers = pages_with(starts, rows, wanted_ranges)
    positions = positions_among(starts, rows, numbers, [start for start, _ in wanted_ranges])
    return f"pages {' '.join(map(str, numbers))}\nranges begin at {' '.join(map(str, positions))}"


def cut(case: Case) -> str:
    wanted_ranges = ranges_in(case.args["ranges"])
    return "\n".join(map(ranges_text, windows(wanted_ranges, int(case.args["most"]))))


def test_ranges_of_rows_are_cut_at_pages() -> None:
    commands = {"parts": parts, "ranges": ranges, "of-rows": of_rows, "pages": pages, "cut": cut}
    run_file(Path(__file__).parent / "row_ranges.txt", lambda case: commands[case.command](case))
