"""The name of a text says that it is one: `files_text`, never `files`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import assignments, modules, nodes_of, tree_of


def test_a_text_is_not_named_by_what_it_formats() -> None:
    """`files` are files, and `files_text` is the text that a message shows."""
    trees = {module: tree_of(module) for module in modules("stream_app")}
    functions = {name for tree in trees.values() for name in text_functions(tree)}
    names = {
        f"{module}: {name}"
        for module, tree in trees.items()
        for name in targets_of_calls(tree, functions)
        if name.split("_")[-1] not in ("text", "texts")
    }
    assert names == set(), "add _text"


def test_texts_are_seen() -> None:
    tree = ast.parse(
        "def count_text(count) -> str: pass\ndef time_text(s) -> str | None: pass\n"
        "def put_text(cursor) -> int: pass\ndef _key_text(key) -> str: pass\n"
        "rows = count_text(3)\ntable.rows = self._key_text(k) if k else None\nend = put_text(end)\n"
        "time, seconds = listing.time_text(2), 4\nif name := time_text(3): pass"
    )
    functions = set(text_functions(tree))
    assert functions == {"_key_text", "count_text", "time_text"}
    assert sorted(targets_of_calls(tree, functions)) == ["name", "rows", "time"]


def text_functions(tree: ast.Module) -> Iterator[str]:
    """Functions that return a text, and whose name says so."""
    for node in nodes_of(tree):
        match node:
            case ast.FunctionDef(name=name, returns=ast.expr() as annotation):
                if name.endswith("_text") and ast.unparse(annotation) in ("str", "str | None"):
                    yield name


def targets_of_calls(tree: ast.Module, functions: set[str]) -> Iterator[str]:
    """Names of the values that get the result of one of these functions; no fields."""
    for target, value in assignments(tree):
        results = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for result in results:
            match target, result:
                case ast.Name(id=name), ast.Call(
                    func=ast.Name(id=function) | ast.Attribute(attr=function)
                ) if function in functions:
                    yield name
