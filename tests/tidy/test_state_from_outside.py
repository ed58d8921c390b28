"""Only the module of a class sets attributes of its objects; others call a method or construct."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

OF_LIBRARIES = {
    "stream_app/app/config/secrets.py": {"record.msg", "record.args"}
    | {"record.exc_text", "record.exc_info"},
    "stream_app/app/http/asgi_server.py": {"config.http_protocol_class"},
    "stream_app/app/web/pages.py": {
        "environment.filters",
        "environment.tests",
        "environment.globals",
    },
    "stream_app/machine_code/compiler.py": {"config.CACHE_DIR"},
    "stream_app/demo/story.py": {"table.title_style"},
    "stream_app/kafka/offset_client.py": {
        "c.cast(added_entry, c.POINTER(_ListedPartition)).contents.offset"
    },
    "stream_app/kafka/librdkafka.py": {"function.restype", "function.argtypes"},
    "stream_app/spark/read/spark_arrow.py": {"field.metadata"},
    "stream_app/spark/jobs/worker_daemon.py": {"daemon.worker"},
    "stream_app/table/iceberg/rest_client.py": {"session.request"},
}
"""Attributes that libraries want set: logging, uvicorn, Jinja, Numba, rich, ctypes, PySpark,
PyIceberg."""


def test_only_the_module_of_a_class_sets_its_attributes() -> None:
    places = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name in modules("stream_app")
        for node in foreign_targets(tree_of(name))
        if ast.unparse(node) not in OF_LIBRARIES.get(name, ())
    ]
    assert places == [], "give the value to the constructor, or to a method named by a verb"


def test_all_exceptions_are_needed() -> None:
    targets = {
        name: {ast.unparse(node) for node in foreign_targets(tree_of(name))}
        for name in OF_LIBRARIES
    }
    assert targets == OF_LIBRARIES


def test_foreign_targets_are_seen() -> None:
    source = """
class Own:
    size: int = 0
    def __init__(self, log):
        self.log = log
        log.sink = 1
        self.log.count += 1
own.size = 3
(own.size, other.name) = 4, 5
"""
    texts = [ast.unparse(node) for node in foreign_targets(ast.parse(source))]
    assert sorted(texts) == ["log.sink", "other.name", "self.log.count"]


def foreign_targets(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Attributes that are set and that no class of the module has."""
    attributes = set(_attributes(tree))
    for node in nodes_of(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and not _is_of_self(node)
            and node.attr not in attributes
        ):
            yield node


def _attributes(tree: ast.Module) -> Iterator[str]:
    """Names of the attributes of the module's classes."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_of_self(node):
                yield node.attr
        elif isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign):
                    yield ast.unparse(line.target)


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
