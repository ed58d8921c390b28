"""A table's options and the levels of its files decide which rows wait for a compaction.

``rule OPTION=… [keyless]`` prints the levels whose rows readers see. ``waiting OPTION=…``: each
line is a bucket, with ``LEVEL:ROWS`` of each file. ``counted newest=N`` takes all rows that wait,
and the age of the newest epoch; ``text`` takes a number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stream_app.model.options.core_options import CoreOptions
from stream_app.planning.compact.waiting_rows import (
    Visibility,
    reported_row_count,
    visibility_of,
    waiting_row_count,
    waiting_text,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file

HERE = Path(__file__).parent


def rule_of(case: Case) -> Visibility:
    return visibility_of(CoreOptions(case.args), merges_by_key="keyless" not in case.args)


def waiting(case: Case) -> str:
    return "\n".join(str(_waiting(case, line)) for line in case.input_lines)


def _waiting(case: Case, line: str) -> int:
    pairs = [tuple(map(int, word.split(":"))) for word in line.split()]
    files = [
        a_file(f"f{number}", level=level, row_count=rows)
        for number, (level, rows) in enumerate(pairs)
    ]
    return waiting_row_count(files, rule_of(case), CoreOptions(case.args).num_levels)


def counted(case: Case) -> str:
    newest, pairs = int(case.args["newest"]), [line.split() for line in case.input_lines]
    return "\n".join(
        str(reported_row_count(int(rows), newest_count=newest, age_s=float(age.removesuffix("s"))))
        for rows, age in pairs
    )


COMMANDS: dict[str, Callable[[Case], str]] = {
    "rule": lambda case: rule_of(case).value,
    "waiting": waiting,
    "counted": counted,
    "text": lambda case: "\n".join(waiting_text(int(line)) for line in case.input_lines),
}


def test_waiting_rows() -> None:
    run_file(HERE / "waiting_rows.txt", lambda case: COMMANDS[case.command](case))
