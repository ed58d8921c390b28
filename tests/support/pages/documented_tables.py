"""What a job says of each table of Paimon's documentation: docs/reference/compatibility.md."""

from __future__ import annotations

from pathlib import Path

from tests.support.suite.datadriven import Case, parse

TABLES = Path(__file__).parents[2] / "datadriven" / "model" / "documented_tables.txt"
HEADING = "## Tables of Paimon's documentation"
_INTRODUCTION = f"""\
{HEADING}

Tables that pages of Paimon's documentation make, of version 2.1. A job takes the definition, or
says why not. `tests/datadriven/model/documented_tables.txt` has the columns as well.

| page | table | options | a job |
| --- | --- | --- | --- |
"""


def documented_section() -> str:
    """Return the last section of the page."""
    cases, _ = parse(TABLES.read_text(encoding="utf-8"), where=str(TABLES))
    return _INTRODUCTION + "\n".join(map(_row, cases)) + "\n"


def _row(case: Case) -> str:
    keys = [f"{word} {case.args[name]}" for name, word in _WORDS.items() if name in case.args]
    options = "; ".join([*keys, *(f"`{line}`" for line in case.input_lines[1:])])
    result = "; ".join(case.expected.split("\n"))
    cells = (case.args["page"], f"`{case.args['name']}`", options, result)
    return "| " + " | ".join(cells) + " |"


_WORDS = {"key": "primary key", "by": "partitioned by"}
