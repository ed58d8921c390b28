"""Names that docstrings and the architecture's page cite exist in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.project_files import modules, nodes_of, text_of, tree_of

FOREIGN = {
    "binlog_row_image",  # a variable of MySQL
}
PAGES = ("docs/ARCHITECTURE.md", "docs/develop/style.md", "docs/develop/testing.md")
_CITED = re.compile(r"(?<!`)`([a-z_][a-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?:\(\))?`(?!`)")
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(name: str) -> Iterator[str]:
    """Yield a module's docstrings without their sources, which are Paimon's or Spark's."""
    for node in nodes_of(tree_of(name)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield re.split(r"^\s*Sources?:", text, flags=re.MULTILINE)[0]


def _names(name: str) -> Iterator[str]:
    """Yield the identifiers of a module, and the words of its texts."""
    yield from Path(name).with_suffix("").parts
    for node in nodes_of(tree_of(name)):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word):
                yield word
            case ast.FunctionDef(name=word) | ast.ClassDef(name=word):
                yield word
            case ast.alias(name=path):
                yield from path.split(".")
            case ast.Constant(value=str(text)) if "\n" not in text:
                yield from re.findall(r"\w+", text)


@cache
def _known_names() -> set[str]:
    """Return the names of the code; a function, because each process collects all tests."""
    return {word for name in modules("stream_app", "tests") for word in _names(name)} | FOREIGN


def _citing_text(place: str) -> str:
    if place in PAGES:
        return re.sub(r"^```.*?^```", "", text_of(place), flags=re.MULTILINE | re.DOTALL)
    return "\n".join(_docstrings(place))


@pytest.mark.parametrize("place", [*modules("stream_app"), *PAGES])
def test_cited_names_exist(place: str) -> None:
    cited_names = [
        name for name in _CITED.findall(_citing_text(place)) if not name.startswith("java.")
    ]
    assert [name for name in cited_names if not set(name.split(".")) <= _known_names()] == []
