"""The tree keeps the rules that no linter has: sizes, names, docstrings and unwanted words."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.project_files import (
    ROOT,
    modules,
    nodes_of,
    project_files,
    text_files,
    text_of,
    tree_of,
)

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CLASS_LINES_MAX = 250
FILE_BYTES_MAX = 200_000
PICTURE_BYTES_MAX = 1_000_000
LARGER_ON_PURPOSE: dict[str, int] = {}
"""Modules that may be larger: they may shrink and never grow; a new one needs a reason here."""

FOLDER_MODULES_MAX = 16

GRAB_BAGS = frozenset(
    {"utils", "util", "helpers", "helper", "common", "misc", "base", "core", "manager", "types"}
)

# Each pattern is broken up, so that this file does not hold what it looks for.
UNWANTED = {
    "left to do": r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b",
    "a registry's host": (
        r"\b(pypi\.o" r"rg|pythonhos" r"ted|repo1?\.mav" r"en|mav" r"en\.org|docker\.i" r"o)\b"
    ),
    "a path of one machine": r"(?<![\w.])/(wo" r"rk|ro" r"ot|ho" r"me|Us" r"ers)/",
    "a folder outside of the project": r"(?<!/mnt/)\bsha" r"red/",
    "how the work is organised": r"\bhouse\.m" r"d\b|\bissue \d|\bpaimon-for" r"mat",
    "a conflict of versions": r"^(<{7}|>{7}) ",
}


def test_modules_are_not_too_long() -> None:
    lines = {name: len(text_of(name).splitlines()) for name in modules()}
    lines_max = {name: LARGER_ON_PURPOSE.get(name, MODULE_LINES_MAX) for name in lines}
    assert [f"{name}: {lines[name]}" for name in lines if lines[name] > lines_max[name]] == []
    shrunk = [name for name in LARGER_ON_PURPOSE if lines.get(name, 0) <= MODULE_LINES_MAX]
    assert shrunk == [], "no longer large: take it off the list"


def test_folders_are_not_too_wide() -> None:
    """A reader takes in a folder at a glance; what does not fit belongs into rooms."""
    widths = Counter(
        str(Path(name).parent)
        for name in modules("stream_app", "tests", "bench")
        if not name.endswith("__init__.py")
    )
    assert {name: width for name, width in widths.items() if width > FOLDER_MODULES_MAX} == {}


def test_folders_of_pages_are_rooms() -> None:
    """Decisions and alerts have a page each, and so their folders grow."""
    pages = [Path(name) for name in project_files() if name.startswith("docs/")]
    beside_rooms = {str(page) for page in pages if len(page.parts) == 2 and page.suffix == ".md"}
    assert beside_rooms == {"docs/ARCHITECTURE.md", "docs/index.md", "docs/performance.md"}
    in_rooms = [page for page in pages if len(page.parts) > 2]
    assert [str(page) for page in in_rooms if str(page) != str(page).lower()] == []
    widths = Counter(page.parts[1] for page in in_rooms if page.suffix == ".md")
    assert {
        room: width
        for room, width in widths.items()
        if width > FOLDER_MODULES_MAX and room not in {"adr", "runbook"}
    } == {}


def test_a_basename_occurs_once_besides_commands() -> None:
    """A command has the name of the module that implements it."""
    names = Counter(
        Path(name).name
        for name in modules("stream_app")
        if not name.startswith(("stream_app/app/cli/verbs/", "stream_app/app/submit/"))
    )
    assert {name for name, count in names.items() if count > 1} == {"__init__.py"}


def test_functions_and_classes_are_not_too_long() -> None:
    assert [
        f"{name}: {node.name}: {lines} lines"
        for name in modules("stream_app")
        for node, lines in _definitions(tree_of(name))
        if lines > (CLASS_LINES_MAX if isinstance(node, ast.ClassDef) else FUNCTION_LINES_MAX)
    ] == []


def _definitions(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, int]]:
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node, (node.end_lineno or node.lineno) - node.lineno + 1


def test_modules_have_names_of_their_field() -> None:
    assert [name for name in modules() if Path(name).stem in GRAB_BAGS] == []


def test_modules_begin_with_what_they_are_for() -> None:
    assert [name for name in modules() if not ast.get_docstring(tree_of(name))] == []


def test_classes_begin_with_what_they_are_for() -> None:
    """The protocol that a class implements comes after its purpose."""
    assert [
        f"{name}: {node.name}"
        for name in modules("stream_app")
        for node in nodes_of(tree_of(name))
        if isinstance(node, ast.ClassDef)
        and (ast.get_docstring(node) or "").startswith("Implements")
    ] == []


def test_our_own_modules_are_imported_at_the_top() -> None:
    """An import inside a function hides a dependency, and often a cycle."""
    assert [
        f"{name}:{node.lineno}"
        for name in modules("stream_app")
        for function in nodes_of(tree_of(name))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stream_app")
    ] == []


def test_packages_hold_nothing_but_a_docstring() -> None:
    assert [
        name
        for name in modules("stream_app")
        if name.endswith("/__init__.py") and name != "stream_app/__init__.py"
        if [type(node) for node in tree_of(name).body] != [ast.Expr]
    ] == []


@pytest.mark.parametrize("subject", UNWANTED)
def test_words_that_do_not_belong(subject: str) -> None:
    pattern = re.compile(UNWANTED[subject], flags=re.MULTILINE)
    assert [
        f"{name}: {match.string[max(0, match.start() - 60) : match.end() + 60]}"
        for name in text_files()
        for match in pattern.finditer(text_of(name))
    ] == []


def test_text_is_clean() -> None:
    assert [name for name in text_files() if "\r" in text_of(name)] == []
    ends = {name: text_of(name)[-2:] for name in text_files() if text_of(name)}
    assert [name for name, end in ends.items() if not end.endswith("\n") or end == "\n\n"] == []
    # In data-driven tests a blank at the end of a line can be input.
    assert [
        f"{name}:{number}"
        for name in text_files()
        if not name.endswith(".txt")
        for number, line in enumerate(text_of(name).split("\n"), start=1)
        if line != line.rstrip()
    ] == []


def test_no_file_is_large_or_generated() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in project_files()}
    assert [
        name
        for name, size in sizes.items()
        if size > (PICTURE_BYTES_MAX if name.endswith(".png") else FILE_BYTES_MAX)
    ] == []
    assert [name for name in sizes if name.endswith((".pyc", ".class", ".jar"))] == []


@pytest.mark.parametrize("kind", ["unit", "datadriven"])
def test_tests_mirror_the_packages(kind: str) -> None:
    """A package's tests stand in the folder of its path, or of a package above it."""
    packages = {str(Path(name).parent) for name in modules("stream_app")}
    folders = {str(Path(name).parent) for name in modules("tests") if f"/{kind}/" in name}
    assert {folder.replace(f"tests/{kind}", "stream_app") for folder in folders} <= packages


def test_no_test_module_imports_another() -> None:
    """Code that two test modules need is in a room of `tests/support`."""
    imported_modules = {
        f"{name}: {module}"
        for name in modules("tests")
        for node in nodes_of(tree_of(name))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for module in (node.module, *(f"{node.module}.{item.name}" for item in node.names))
        if module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")
    }
    assert imported_modules == set()
