"""Lists the names that a module gives to values, functions, fields, types and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import assignments, nodes_of


def values(tree: ast.Module) -> Iterator[str]:
    """Names that values get: by assignments, loops, arguments and patterns."""
    for node in nodes_of(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def fields(tree: ast.Module) -> Iterator[str]:
    """Names of the fields that classes declare."""
    for node in nodes_of(tree):
        match node:
            case ast.ClassDef(body=body):
                for item in body:
                    match item:
                        case ast.AnnAssign(target=ast.Name(id=name)):
                            yield name


def other_names(tree: ast.Module) -> Iterator[str]:
    """Names of functions, and of attributes that get values."""
    for node in nodes_of(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


def public_definitions(tree: ast.Module) -> Iterator[str]:
    """Names of a module's functions and constants; no aliases of types, and no classes."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                continue
        for name in names:
            is_type = name[:1].isupper() and not name.isupper()
            if not name.startswith("_") and not is_type:
                yield name


def number_constants(tree: ast.Module) -> Iterator[str]:
    """Names in upper case that a module or a class gives to numbers; no members of enums."""
    numbers: set[str] = set()
    for name, value in constants(tree.body):
        if _is_number(value, numbers):
            numbers.add(name)
            yield name


def constants(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names in upper case of a module and its classes, with the values; no members of enums."""
    statements = [item for item in body if isinstance(item, ast.Assign | ast.AnnAssign)]
    for target, value in assignments(ast.Module(list(statements), [])):
        match target:
            case ast.Name(id=name) if name.isupper():
                yield name, value
    for item in body:
        match item:
            case ast.ClassDef(bases=bases, body=members):
                if not any(ast.unparse(base).endswith(("Enum", "Flag")) for base in bases):
                    yield from constants(members)


def _is_number(value: ast.expr, numbers: set[str]) -> bool:
    match value:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float()):
            return True
        case ast.Name(id=name):
            return name in numbers
        case ast.UnaryOp(operand=operand):
            return _is_number(operand, numbers)
        case ast.BinOp(left=left, right=right):
            return _is_number(left, numbers) or _is_number(right, numbers)
        case ast.Call(func=ast.Name(id="len" | "int")):
            return True
    return False


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Names that a module imports from the product's modules."""
    for node in nodes_of(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                if module.startswith("stream_app"):
                    yield from (alias.name for alias in aliases)


def type_aliases(tree: ast.Module) -> Iterator[str]:
    """Names of a module's aliases of types, without a leading underscore."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not _is_type_var(value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                pass
            case _:
                continue
        name = name.lstrip("_")
        if name[:1].isupper() and not name.isupper():
            yield name


def _is_type_var(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")
