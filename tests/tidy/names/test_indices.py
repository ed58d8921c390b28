"""An array of indices is called `indices`, `positions`, `starts`, `ends` or an `order`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import assignments, modules, tree_of

INDEX_FUNCTIONS = frozenset({"argsort", "flatnonzero", "lexsort", "nonzero", "sort_indices"})
"""Functions of NumPy and Arrow that return places in their argument."""

CONVERSIONS = frozenset({"append", "asarray", "astype", "tolist", "to_numpy"})
"""Functions whose result is still the places."""

PLACES = ("ends", "indices", "order", "positions", "starts")


def test_an_array_of_indices_says_that_it_is_one() -> None:
    names = {
        f"{module}: {name}"
        for module in modules("stream_app")
        for name in index_arrays(tree_of(module))
        if name.split("_")[-1] not in PLACES
    }
    assert names == set(), "such as removed_indices, never removed or removed_rows"


def test_index_arrays_are_seen() -> None:
    tree = ast.parse(
        "a = np.flatnonzero(b)\nc: Int64s = np.argsort(d).astype(np.int64)[::-1]\n"
        "e, f = np.append(np.flatnonzero(g), 3) + 1, take(np.flatnonzero(h))\n"
        "for i in np.flatnonzero(j).tolist(): k = j[i]\nself.m = np.lexsort((n, o))"
    )
    assert sorted(index_arrays(tree)) == ["a", "c", "e", "m"]


def index_arrays(tree: ast.Module) -> Iterator[str]:
    """Names of the values that get an array of indices."""
    for target, value in assignments(tree):
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name) if is_index_array(value):
                yield name


def is_index_array(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr=function)) if function in INDEX_FUNCTIONS:
            return True
        case ast.Call(func=ast.Attribute(attr=function, value=inner), args=arguments):
            is_conversion = function in CONVERSIONS
            return is_conversion and any(map(is_index_array, (inner, *arguments)))
        case ast.Subscript(value=inner) | ast.BinOp(left=inner):
            return is_index_array(inner)
    return False
