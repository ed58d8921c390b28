"""A docstring that says who calls a module names one that imports it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import pytest

from tests.tidy.project_files import modules, nodes_of, text_of, tree_of

_CALLED_BY = re.compile(r"\b(?:[Cc]alled|[Uu]sed)(?: \w+)* by `([a-z_./]+)[.\w]*`")
_CALLS_IT = re.compile(r"`([a-z_./]+)[.\w]*` (?:asks|calls (?:it|them|these)|makes (?:it|them))\b")
MODULES = {name.removesuffix(".py").rpartition("/")[2] for name in modules("stream_app")}


CITING = [
    name
    for name in modules("stream_app")
    if _CALLED_BY.search(text_of(name)) or _CALLS_IT.search(text_of(name))
]


def _dotted_name(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def _importers() -> Mapping[str, set[str]]:
    """Module → the modules that import it or one of its names."""
    importers = defaultdict[str, set[str]](set)
    for name in modules("stream_app"):
        for node in nodes_of(tree_of(name)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                importers[node.module].add(_dotted_name(name))
                for alias in node.names:
                    importers[f"{node.module}.{alias.name}"].add(_dotted_name(name))
    return importers


def _named_callers(name: str) -> list[str]:
    text = ast.get_docstring(tree_of(name)) or ""
    active = (caller for caller in _CALLS_IT.findall(text) if caller.rpartition(".")[2] in MODULES)
    return [*_CALLED_BY.findall(text), *active]


@pytest.mark.parametrize("name", CITING)
def test_the_caller_imports_what_it_calls(name: str) -> None:
    importers = {f".{importer}." for importer in _importers()[_dotted_name(name)]}
    for caller in _named_callers(name):
        part = f".{caller.replace('/', '.').strip('.')}."
        assert any(part in importer for importer in importers), (caller, sorted(importers))
