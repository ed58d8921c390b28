"""A dataclass's constructor takes at most eight fields by position."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

POSITIONAL_MAX = 8


def test_constructors_take_eight_fields_by_position_at_most() -> None:
    names = [
        f"{name}: {class_name}"
        for name in modules("stream_app")
        for class_name, fields in positional_fields(tree_of(name))
        if fields > POSITIONAL_MAX
    ]
    assert names == [], "write @dataclass(kw_only=True), or `_: KW_ONLY` among the fields"


def test_positional_fields_are_counted() -> None:
    source = """
@dataclass(slots=True)
class Reader:
    limit: ClassVar[int] = 3
    path: str
    row: int = field(default=0)
    end: int = field(kw_only=True)
    _known: set[str] = field(init=False, default_factory=set)
    _: KW_ONLY
    name: str
@dataclass(kw_only=True)
class Writer:
    path: str
class Plain:
    row: int = 0
"""
    assert list(positional_fields(ast.parse(source))) == [("Reader", 2)]


def positional_fields(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the dataclasses, and how many fields their constructors take by position."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            for decorator in map(ast.unparse, node.decorator_list):
                if decorator.startswith("dataclass") and "kw_only=True" not in decorator:
                    yield node.name, _count(node)


def _count(dataclass: ast.ClassDef) -> int:
    count = 0
    for line in map(ast.unparse, filter(_is_annotated, dataclass.body)):
        if line == "_: KW_ONLY":
            break
        count += not any(part in line for part in ("ClassVar", "init=False", "kw_only=True"))
    return count


def _is_annotated(line: ast.stmt) -> bool:
    return isinstance(line, ast.AnnAssign)
