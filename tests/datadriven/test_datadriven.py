"""The runner of text tests passes, fails and rewrites text files as it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.suite.datadriven import Case, parse, run_file

TEXT = """\
# about the file

# about the case
upper from=a 'to=b c' loud
# not a comment but input

last
----
# NOT A COMMENT BUT INPUT

upper
x
----
X

blank
a

b
----
----
A

B
----
----

# the end
"""


def upper(case: Case) -> str:
    return case.input.upper() if case.command == "blank" else case.input.split("\n")[0].upper()


def test_parse() -> None:
    cases, trailer = parse(TEXT)
    first = cases[0]
    assert [case.command for case in cases] == ["upper", "upper", "blank"]
    assert first.args == {"from": "a", "to": "b c", "loud": ""}
    assert first.input_lines == ("# not a comment but input", "", "last")
    assert first.comments == ("# about the file", "", "# about the case")
    assert first.line_number == 4
    assert cases[2].expected == "A\n\nB"
    assert trailer == ("# the end",)


def test_run_passes_and_rewrite_keeps_everything_else(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text(TEXT)
    run_file(file, upper, rewrite=False)
    run_file(file, upper, rewrite=True)
    assert file.read_text() == TEXT
    run_file(file, lambda case: upper(case).lower(), rewrite=True)
    run_file(file, lambda case: upper(case).lower(), rewrite=False)
    assert "----\nx\n" in file.read_text()


def test_a_difference_names_the_line_and_shows_all(tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text(TEXT)
    with pytest.raises(AssertionError, match=r"(?s)t\.txt:4.*t\.txt:11.*REWRITE=1"):
        run_file(file, lambda _: "no", rewrite=False)


def test_a_case_without_separator_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no line '----'"):
        parse("upper\nx\n")
