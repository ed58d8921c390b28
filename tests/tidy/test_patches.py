"""Tests patch the system's names, such as os.fsync, and none of the project's.

A patch of our own marks a missing parameter: the product gets it, with a default. Only the
simulation, which owns all threads of a process, replaces classes of the standard library where the
product uses them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

OURS = ("stream_app", "bench")
BY_PLAN = {"tests/unit/fileio/test_s3_troubles.py"}
"""A mute store is waited for half a second there, instead of ten, twice."""
PATCHING = {"setattr", "delattr", "setitem", "delitem", "patch", "object", "multiple", "dict"}


def test_nothing_of_ours_is_patched() -> None:
    patched_names = [
        f"{name}:{line}"
        for name in modules("tests", "bench")
        if name not in BY_PLAN
        for line in patches(tree_of(name))
    ]
    assert patched_names == []


def test_patches_are_seen() -> None:
    source = """
from unittest.mock import patch
from stream_app.fileio.local import local_file_io
from stream_app.fileio.local.local_file_io import LocalFileIO

def test(monkeypatch):
    monkeypatch.setattr("os.fsync", None)
    monkeypatch.setattr("stream_app.clock.Clock.sleep", None)
    monkeypatch.setattr(LocalFileIO, "sync", None)
    setattr(local_file_io, "_sync", None)
    patch.object(local_file_io.LocalFileIO, "sync")
    LocalFileIO.sync = None
    LocalFileIO().sync = None
"""
    assert sorted(patches(ast.parse(source))) == [8, 9, 10, 11, 12]


def patches(tree: ast.Module) -> Iterator[int]:
    """The lines at which a name of ours gets another value."""
    names = _names_of_ours(tree)
    for node in nodes_of(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr=function) | ast.Name(id=function), args=[first, *_]
            ):
                if function in PATCHING and _is_ours(first, names):
                    yield node.lineno
            case ast.Assign(targets=[ast.Attribute(value=place)]):
                if _is_ours(place, names):
                    yield node.lineno


def _names_of_ours(tree: ast.Module) -> set[str]:
    names = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            parts = [alias.asname or alias.name.split(".")[0] for alias in node.names]
            names |= {part for part in parts if part in OURS}
    return names


def _is_ours(node: ast.expr, names: set[str]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    match node:
        case ast.Constant(value=str(text)):
            return text.split(".")[0] in OURS
        case ast.Name(id=name):
            return name in names
    return False
