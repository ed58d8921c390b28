"""A string that describes a constant stands directly behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_DESCRIBED = (ast.Assign, ast.AnnAssign)


def test_strings_describe_a_name() -> None:
    orphans = [f"{name}:{line}" for name in modules() for line in orphaned_strings(tree_of(name))]
    assert orphans == [], "remove the string with its name, or put it behind its name"


def test_orphaned_strings_are_seen() -> None:
    tree = ast.parse(
        "'of the module'\n"
        "import os\n"
        "'orphan'\n"
        "MAX = 3\n"
        "'of MAX'\n"
        "'orphan'\n"
        "class A:\n"
        "    'of A'\n"
        "    size: int\n"
        "    'of size'\n"
        "    def f(self):\n"
        "        'of f'\n"
        "        if self:\n"
        "            'orphan'\n"
    )
    assert sorted(orphaned_strings(tree)) == [3, 6, 14]


def orphaned_strings(tree: ast.Module) -> Iterator[int]:
    """Lines of strings that are neither a docstring nor behind an assignment."""
    for node in nodes_of(tree):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if not isinstance(statements, list):  # the body of a lambda is not a list
                continue
            begins_described = block == "body" and isinstance(node, _WITH_DOCSTRING)
            for index, statement in enumerate(statements):
                behind = (
                    isinstance(statements[index - 1], _DESCRIBED) if index else begins_described
                )
                if _is_string(statement) and not behind:
                    yield statement.lineno


def _is_string(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
