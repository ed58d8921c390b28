"""Code asks a table's kind for its traits and parts, so another kind is one file and one line."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

OLD_QUESTIONS = {"has_primary_key", "is_bucket_unaware"}
MAY_ASK = {
    "stream_app/model/traits/kind_traits.py": "says which kind a table has",
    "stream_app/model/schema/": "validates a definition's keys",
    "stream_app/model/source/": "merges descriptions of source tables, some without a key",
    "stream_app/table/kinds/": "the kinds themselves",
    "stream_app/planning/sync/new_tables.py": "decides the key, before there is a schema",
    "stream_app/app/config/": "judges what is configured, before there is a schema",
    "stream_app/app/inspect/overview.py": "prints the key, or that there is none",
}
"""Modules and folders that may ask whether there is a primary key, each with its reason."""


def test_only_kinds_test_for_a_primary_key() -> None:
    uses = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name in modules("stream_app")
        if not name.startswith(tuple(MAY_ASK))
        for node in (*_questions(tree_of(name)), *_truths(tree_of(name)))
    ]
    assert uses == [], "ask the table's kind (model/traits/kind_traits.py)"


def _questions(tree: ast.Module) -> Iterator[ast.expr | ast.keyword]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and node.attr in OLD_QUESTIONS:
            yield node
        if isinstance(node, ast.keyword) and node.arg in OLD_QUESTIONS:
            yield node


def _truths(tree: ast.Module) -> Iterator[ast.expr]:
    """Primary keys that are looked at only for whether there are any."""
    for node in nodes_of(tree):
        for expression in _judged_expressions(node):
            name = expression.attr if isinstance(expression, ast.Attribute) else None
            name = expression.id if isinstance(expression, ast.Name) else name
            if name in ("primary_keys", "trimmed_primary_keys"):
                yield expression


def _judged_expressions(node: ast.AST) -> list[ast.expr]:
    """The expressions of which only the truth counts."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [operand]
        case ast.BoolOp(values=values):
            return values
        case ast.comprehension(ifs=ifs):
            return ifs
        case ast.Call(func=ast.Name(id="bool"), args=args):
            return args
        case _:
            return []
