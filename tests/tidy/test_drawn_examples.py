"""A function of dense NumPy or Arrow draws an example, and a test of its module tries it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np
import pytest

from tests.tidy.project_files import modules, nodes_of, tree_of

CALLS_MAX = 10
"""Calls of NumPy and `pyarrow.compute` in a function that needs no drawing to be read."""
STEPS_MAX = 30
"""Such calls, selections by an index, and operators, in a function that needs no drawing."""

COMPUTING = frozenset({"numpy", "pyarrow.compute"})
EXAMPLES = ("tests/unit/test_worked_examples.py", "tests/unit/test_worked_texts.py")


def test_dense_functions_draw_an_example() -> None:
    assert [
        f"{module}: {function.name}"
        for module in modules("stream_app")
        for function in dense_functions(tree_of(module))
        if not has_drawing(function)
    ] == [], f"draw four rows in the docstring, and try them in one of {EXAMPLES}"


def test_examples_of_dense_functions_are_tried() -> None:
    tried_modules = {name for example in EXAMPLES for name in imported_modules(tree_of(example))}
    dense = {
        module.removesuffix(".py").replace("/", ".")
        for module in modules("stream_app")
        if any(dense_functions(tree_of(module)))
    }
    assert sorted(dense - tried_modules) == [], f"try the drawn example in one of {EXAMPLES}"


@pytest.mark.parametrize(("calls", "is_dense"), [(CALLS_MAX, False), (CALLS_MAX + 1, True)])
def test_dense_functions_are_seen(calls: int, is_dense: bool) -> None:
    lines = ["x = np.array(len(x))", *["x = pc.add(x, 1).cast(int)"] * (calls - 1)]
    module = (
        f"import numpy as np\nimport pyarrow.compute as pc\ndef f(x):\n    {'; '.join(lines)}\n"
    )
    assert [function.name for function in dense_functions(ast.parse(module))] == ["f"] * is_dense


@pytest.mark.parametrize(
    ("step", "is_dense"),
    [("x = x[i]", True), ("x = x & i", True), ("x = ~x", True), ("x[0]", False), ("x + 1", False)],
)
def test_selections_and_operators_are_seen(step: str, is_dense: bool) -> None:
    lines = ["x = np.array(x)", *[step] * STEPS_MAX]
    module = f"import numpy as np\ndef f(x, i):\n    {'; '.join(lines)}\n"
    assert [function.name for function in dense_functions(ast.parse(module))] == ["f"] * is_dense


@pytest.mark.parametrize(
    ("docstring", "is_drawn"),
    [("Rows.\n\n    Four::\n\n        [1, 2]\n    ", True), ("Four rows.", False)],
)
def test_drawings_are_seen(docstring: str, is_drawn: bool) -> None:
    functions = ast.parse(f'def f():\n    """{docstring}"""').body
    assert [has_drawing(node) for node in functions if isinstance(node, ast.FunctionDef)] == [
        is_drawn
    ]


def dense_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods with more steps than a reader follows without an example."""
    aliases = computing_aliases(tree)
    for node in nodes_of(tree) if aliases else ():
        if isinstance(node, ast.FunctionDef):
            parts = [part for line in node.body for part in ast.walk(line)]
            calls = [part for part in parts if isinstance(part, ast.Call)]
            call_count = sum(begins_with(call.func, aliases) for call in calls)
            step_count = call_count + sum(map(is_step, parts))
            if call_count > CALLS_MAX or (call_count and step_count > STEPS_MAX):
                yield node


def is_step(part: ast.AST) -> bool:
    """Return whether a part of a function selects or combines values that may be arrays.

    A constant index or operand is of a list, a tuple or a counter more often than of an array.
    """
    match part:
        case ast.Subscript(slice=ast.Constant()):
            return False
        case ast.BinOp(left=ast.Constant()) | ast.BinOp(right=ast.Constant()):
            return False
        case ast.Subscript() | ast.BinOp() | ast.UnaryOp(op=ast.Invert()):
            return True
    return False


def computing_aliases(tree: ast.Module) -> set[str]:
    """The names by which a module knows NumPy and `pyarrow.compute`."""
    return {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in COMPUTING
    }


def begins_with(function: ast.expr, aliases: set[str]) -> bool:
    """Return whether a called function is of these modules, such as `np.minimum.accumulate`.

    Types such as `np.uint64` do not count: they compute nothing.
    """
    match function:
        case ast.Attribute(value=ast.Name(), attr=name) if isinstance(
            getattr(np, name, None), type
        ):
            return False
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in aliases


def has_drawing(function: ast.FunctionDef) -> bool:
    """Return whether the docstring has an indented block behind a double colon."""
    lines = (ast.get_docstring(function) or "").splitlines()
    return any(
        line.endswith("::") and len(behind) > 1 and behind[1].startswith("    ")
        for line, behind in ((line, lines[index + 1 :]) for index, line in enumerate(lines))
    )


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
