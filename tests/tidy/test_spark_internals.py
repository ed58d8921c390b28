"""Only one module uses Spark's internals, which a later Spark may change without notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, nodes_of, tree_of

ALLOWED = "stream_app/spark/driver/jvm_access.py"
HIDDEN_MODULES = ("pyspark.java_gateway", "pyspark.accumulators")
OF_SPARK = {"_jvm", "_jsc", "_jrdd", "_jdf", "_jsparkSession", "_jsq", "_jwrite", "_gateway"}
OF_PY4J = {"py4j.protocol"}
"""Its errors are what a call of Java's raises."""


def test_only_one_module_knows_sparks_internals() -> None:
    uses = [
        f"{name}:{line}"
        for name in modules("stream_app")
        if name != ALLOWED
        for line in touches(tree_of(name))
    ]
    assert uses == []


def test_the_test_finds_hidden_uses_of_internals() -> None:
    source = """
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.accumulators import _accumulatorRegistry
import py4j.java_gateway
from py4j.protocol import Py4JError
def run(context):
    return context._jvm, context.parallelize([])._jrdd, context.version
"""
    assert sorted(touches(ast.parse(source))) == [2, 3, 4, 7, 7]


def touches(tree: ast.Module) -> Iterator[int]:
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and node.attr in OF_SPARK:
            yield node.lineno
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            is_hidden = module in HIDDEN_MODULES or any(
                module.startswith("pyspark") and alias.name.startswith("_") for alias in node.names
            )
            if is_hidden or (module.startswith("py4j") and module not in OF_PY4J):
                yield node.lineno
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if any(name in HIDDEN_MODULES or name.startswith("py4j") for name in names):
                yield node.lineno
