"""Runs text files of commands and expected output: what has a shape is tested as text.

File format: a case is any number of ``#`` comment lines, a command line
(``name key=value flag …``, quoted as in a shell), input lines up to a line ``----``, then the
expected output up to the next blank line. Input may hold blank lines and ``#``. Output that
holds blank lines is written between ``----`` doubled before and after it.

With ``REWRITE=1`` in the environment the files are rewritten with what really came out; look at
the diff before you commit it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

SEPARATOR = "----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command with its input and the output that is expected.

    Attributes:
        line_number: of the command line, from 1.
        comments: the comment lines before the command.
        header: the command line as written.
        args: `key=value` pairs of the command line; a word without ``=`` has the value ``""``.
    """

    line_number: int
    comments: tuple[str, ...]
    header: str
    command: str
    args: dict[str, str]
    input_lines: tuple[str, ...]
    expected: str

    @property
    def input(self) -> str:
        """The input lines as one text."""
        return "\n".join(self.input_lines)


def rewriting() -> bool:
    """Return whether ``REWRITE=1`` asks to record the actual output."""
    return os.environ.get("REWRITE") == "1"


def run_file(path: Path, handle: Callable[[Case], str], *, rewrite: bool | None = None) -> None:
    """Run each case in order against `handle`; compare, or rewrite the file in place.

    All cases run even when one differs, so that a failure shows every difference at once.
    """
    cases, trailer = parse(path.read_text(encoding="utf-8"), where=str(path))
    assert cases, f"{path} holds no case"
    actual = [_tidy(handle(case)) for case in cases]
    if rewriting() if rewrite is None else rewrite:
        path.write_text(render(cases, actual, trailer), encoding="utf-8")
        return
    differences = [
        f"{path}:{case.line_number}: {case.header}\n--- got\n{got}\n--- expected\n{case.expected}"
        for case, got in zip(cases, actual, strict=True)
        if got != case.expected
    ]
    hint = "\n(REWRITE=1 records what came out)"
    assert not differences, "\n\n".join(differences) + hint


def files(folder: Path) -> list[Path]:
    """Return the text files of a folder, in order; for `pytest.mark.parametrize`."""
    files = sorted(folder.glob("*.txt"))
    assert files, f"{folder} holds no *.txt"
    return files


def parse(text: str, *, where: str = "text") -> tuple[list[Case], tuple[str, ...]]:
    """Return the cases of a file, and the comment lines after the last one."""
    lines = text.split("\n")
    cases: list[Case] = []
    comments: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("#") or not line.strip():
            # A blank line between comments parts a note on the file from a note on the case.
            if line.startswith("#") or comments:
                comments.append(line.rstrip())
            index += 1
            continue
        case, index = _parse_case(lines, index, tuple(comments), where)
        cases.append(case)
        comments = []
    while comments and not comments[-1]:
        comments.pop()
    return cases, tuple(comments)


def _parse_case(
    lines: list[str], start: int, comments: tuple[str, ...], where: str
) -> tuple[Case, int]:
    header = lines[start]
    index = start + 1
    while index < len(lines) and lines[index] != SEPARATOR:
        index += 1
    assert index < len(lines), f"{where}:{start + 1}: {header!r} has no line {SEPARATOR!r} after it"
    input_lines = tuple(lines[start + 1 : index])
    index += 1
    is_doubled = index < len(lines) and lines[index] == SEPARATOR
    first = index = index + 1 if is_doubled else index
    while index < len(lines) and not _ends_output(lines, index, is_doubled=is_doubled):
        index += 1
    expected = "\n".join(lines[first:index])
    command, *words = shlex.split(header)
    args = dict(word.partition("=")[::2] for word in words)
    case = Case(
        line_number=start + 1,
        comments=comments,
        header=header,
        command=command,
        args=args,
        input_lines=input_lines,
        expected=expected,
    )
    return case, index + 2 if is_doubled else index


def _ends_output(lines: list[str], index: int, *, is_doubled: bool) -> bool:
    if is_doubled:
        return lines[index : index + 2] == [SEPARATOR, SEPARATOR]
    return not lines[index].strip()


def render(cases: Iterable[Case], actual: Iterable[str], trailer: tuple[str, ...] = ()) -> str:
    """Return the file's text with `actual` in the place of what was expected."""
    blocks = []
    for case, got in zip(cases, actual, strict=True):
        fence = [SEPARATOR, SEPARATOR] if "\n\n" in got else [SEPARATOR]
        end = fence if len(fence) > 1 else []
        output = [got] if got else []
        blocks.append(
            "\n".join([*case.comments, case.header, *case.input_lines, *fence, *output, *end])
        )
    if trailer:
        blocks.append("\n".join(trailer))
    return "\n\n".join(blocks) + "\n"


def _tidy(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.split("\n")).strip("\n")
