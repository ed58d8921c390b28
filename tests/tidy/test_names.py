"""One name means one thing, and no value has an empty word for its name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.tidy.project_files import modules, tree_of

EMPTY = frozenset({"found", "told", "each"})
"""They say how a value came about, not what it is: `files`, `row`, `schema` say that."""


def test_no_class_name_is_defined_twice() -> None:
    """A name with an underscore is its module's own."""
    places = Counter(
        node.name
        for name in modules("stream_app")
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in places.items() if count > 1] == []


@pytest.mark.parametrize("storey", sorted({name.split("/")[1] for name in modules("stream_app")}))
def test_values_have_no_empty_names(storey: str) -> None:
    names = Counter(
        name
        for module in modules("stream_app")
        if module.split("/")[1] == storey
        for name in values(tree_of(module))
    )
    assert not EMPTY & names.keys(), "name the value by what it is, such as files or row"


def test_values_are_seen() -> None:
    tree = ast.parse("def f(a, *, each): found = [told for told in a]\nfor b, each in c: pass")
    assert Counter(values(tree)) == Counter(["a", "each", "found", "told", "b", "each"])


def values(tree: ast.Module) -> Iterator[str]:
    """Names that values get: by assignments, loops, arguments and patterns."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
