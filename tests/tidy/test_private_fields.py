"""A value's class makes its private state: no caller passes it to the constructor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of


def test_no_constructor_takes_a_private_field() -> None:
    places = [
        f"{name}:{line}" for name in modules("stream_app") for line in private_parts(tree_of(name))
    ]
    assert places == [], "write field(init=False, …), or give the field a public name"


def test_private_parts_are_seen() -> None:
    source = """
@dataclass(slots=True)
class Reader:
    path: str
    _: KW_ONLY
    _row: int = 0
    _seen: set[str] = field(default_factory=set)
    _known: set[str] = field(init=False, default_factory=set)
    _limit: ClassVar[int] = 3
class Plain:
    _row: int = 0
@dataclass
class _Row:
    _number: int
"""
    assert list(private_parts(ast.parse(source))) == [6, 7, 14]


def private_parts(tree: ast.Module) -> Iterator[int]:
    """Lines of the private fields that a dataclass's constructor takes."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef) and any(map(_makes_dataclass, node.decorator_list)):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and _is_private_part(line):
                    yield line.lineno


def _makes_dataclass(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(name).split(".")[-1] == "dataclass"


def _is_private_part(line: ast.AnnAssign) -> bool:
    name, kind = ast.unparse(line.target), ast.unparse(line.annotation)
    is_part = name.startswith("_") and kind != "KW_ONLY" and not kind.startswith("ClassVar")
    return is_part and "init=False" not in ast.unparse(line.value or ast.Constant(None))
