"""A name that ends in `_bytes` is a value of bytes; a number of bytes is a size or a count."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names.names_of_a_module import number_constants
from tests.tidy.project_files import modules, nodes_of, tree_of

WRITES_BYTES = frozenset({"copy_bytes", "put_bytes"})
"""Functions that write bytes, and return the position after them."""

NUMBERS = frozenset({"int", "int | None", "float", "float | None"})


def test_a_number_of_bytes_is_a_size_or_a_byte_count() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app", "bench", "docker", "tests")
        for name in numbers_named_bytes(tree_of(module))
        if name not in WRITES_BYTES
    }
    assert names == set(), "such as header_size, or byte_count"


def test_a_constant_that_is_a_number_of_bytes_is_a_size() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app", "bench", "docker", "tests")
        for name in number_constants(tree_of(module))
        if name.endswith("_BYTES")
    }
    assert names == set(), "such as BLOCK_SIZE, or the bound BLOCK_BYTES_MAX"


def test_each_accepted_name_is_used() -> None:
    names = {
        name for module in modules("stream_app") for name in numbers_named_bytes(tree_of(module))
    }
    assert names >= WRITES_BYTES


def test_numbers_named_bytes_are_seen() -> None:
    tree = ast.parse(
        "class Part:\n    new_bytes: int\n    key_bytes: bytes\n    row_size: int\n"
        "    def _held_bytes(self) -> int | None: self._sent_bytes: float = 0\n"
        "def f(file_bytes: int, *, part_bytes: int = 1, bytes_max: int) -> int: pass"
    )
    names = ["file_bytes", "held_bytes", "new_bytes", "part_bytes", "sent_bytes"]
    assert sorted(numbers_named_bytes(tree)) == names


def numbers_named_bytes(tree: ast.Module) -> Iterator[str]:
    """Names that end in `_bytes` although their annotation is a number, without an underscore."""
    for node in nodes_of(tree):
        match node:
            case ast.arg(arg=name, annotation=annotation):
                pass
            case ast.FunctionDef(name=name, returns=annotation):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                pass
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
                pass
            case _:
                continue
        is_number = annotation is not None and ast.unparse(annotation) in NUMBERS
        if is_number and name.endswith("_bytes"):
            yield name.lstrip("_")
