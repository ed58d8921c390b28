"""The files of the project as git knows them, read once, and the assignments in their trees.

Without git, they are those that are there.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_OURS = {".venv", ".venvs", ".jars", "__pycache__", "build", "dist"}


@cache
def project_files() -> tuple[str, ...]:
    """Paths relative to the root, fixtures left out: those are others' bytes."""
    file_list = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if file_list.returncode == 0:
        names = [name for name in file_list.stdout.split("\0") if name]
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    return tuple(
        name
        for name in sorted(names)
        if not name.startswith("tests/fixtures/")
        and not _NOT_OURS & set(Path(name).parts)
        and (ROOT / name).is_file()
    )


def text_files() -> list[str]:
    """All that is written by hand."""
    return [name for name in project_files() if Path(name).suffix not in (".png", ".jar", ".gz")]


def modules(*folders: str) -> list[str]:
    """Python files, of these folders or of all."""
    return [
        name
        for name in project_files()
        if name.endswith(".py")
        and (not folders or name.startswith(tuple(f"{folder}/" for folder in folders)))
    ]


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(text_of(name))


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree. Many tests want them, and to walk a tree takes long."""
    return tuple(ast.walk(tree))


def drop_trees() -> None:
    nodes_of.cache_clear()
    tree_of.cache_clear()


def assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Single targets with their values; tuples of targets with the items of a tuple."""
    for node in nodes_of(tree):
        match node:
            case ast.NamedExpr(target=name, value=value):
                yield name, value
            case ast.AnnAssign(target=name, value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    match target, value:
                        case ast.Tuple(elts=items), ast.Tuple(elts=values):
                            yield from zip(items, values, strict=False)
                        case _:
                            yield target, value
