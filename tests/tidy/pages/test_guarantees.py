"""Each promise of the pages names tests, and these tests exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.project_files import ROOT, nodes_of, text_of, tree_of

_NOTE = re.compile(r"^\[\^(\d+)\]:\s+(.*(?:\n    .*)*)", re.MULTILINE)
_MARK = re.compile(r"\[\^(\d+)\](?!:)")
_PROMISING = [f"docs/reference/{page}.md" for page in ("guarantees", "failures", "reliability")]


@pytest.mark.parametrize("page", _PROMISING)
def test_the_tests_that_a_footnote_names_exist(page: str) -> None:
    """``[^1]: scenarios/faults/test_crashes::test_who_dies, …``: the beginning of a test's name is
    enough, and the name of a file of text cases."""
    notes = dict(_NOTE.findall(text_of(page)))
    assert set(_MARK.findall(text_of(page))) == notes.keys()
    missing = []
    for names_text in notes.values():
        for name in re.split(r",\s+", names_text):
            file, _, test = name.partition("::")
            path = f"tests/{file}" if "." in file else f"tests/{file}.py"
            if not (ROOT / path).is_file() or (test and not _has(path, test)):
                missing.append(name)
    assert missing == []


@pytest.mark.parametrize("page", ["docs/reference/guarantees.md", "docs/reference/failures.md"])
def test_every_promise_names_a_test(page: str) -> None:
    """Each point of a list and each row of a table is a promise; sentences between them explain.

    The table before the first section of the guarantees only summarises the sections.
    """
    text = text_of(page).partition("## What is not promised")[0]
    if page.endswith("guarantees.md"):
        text = text.partition("\n## ")[2]
    lines = re.sub(r"\n +", " ", text).splitlines()
    promises = [line for line in lines if line.startswith(("* ", "1. ", "2. ", "3. ", "| "))]
    rows = [line for line in promises if not line.startswith(("| ---", "| what"))]
    assert len(rows) > 30
    assert [line[:70] for line in rows if not _MARK.search(line)] == []


def _has(path: str, test: str) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name.startswith(test)
        for node in nodes_of(tree_of(path))
    )
