"""Iceberg's own runtime in a Spark of its own, as a judge: SQL in, rows out.

Iceberg's jar must be on Spark's class path from the start, so this Spark runs in a child. The file
is the caller's side and, started as a module, the child.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.launch.jar_sets import Coordinate, JarSet
from stream_app.app.launch.jars import JarCache, installed_spark_version, jar_folder
from tests.support.fast_jvm import FAST_JVM
from tests.support.line_server import LineServer

REPO = Path(__file__).resolve().parents[2]
_VERSION = "1.11.0"
_SPARK_OF_RUNTIME = "4.1"
_RUNTIME = JarSet(
    name=f"iceberg-spark-{_VERSION}",
    coordinates=(
        Coordinate(
            "org.apache.iceberg", f"iceberg-spark-runtime-{_SPARK_OF_RUNTIME}_2.13", _VERSION
        ),
    ),
    complete=True,
)


class SparkIcebergError(Exception):
    """What Spark raised, with its causes."""


def why_no_iceberg_in_spark() -> str | None:
    """Why the installed Spark cannot be a judge; None if it can."""
    installed = installed_spark_version()
    if installed.startswith(f"{_SPARK_OF_RUNTIME}."):
        return None
    return f"the runtime of Iceberg {_VERSION} is for Spark {_SPARK_OF_RUNTIME}, not {installed}"


class IcebergSpark:
    """Starts Spark at once; close it (or use it in `with`)."""

    def __init__(self) -> None:
        [jar] = JarCache(jar_folder()).resolve(_RUNTIME)
        self._directory = tempfile.TemporaryDirectory(prefix="iceberg-spark-")
        self._server = LineServer(
            [sys.executable, "-m", "tests.support.iceberg_spark", str(jar)],
            cwd=Path(self._directory.name), env={**os.environ, "PYTHONPATH": str(REPO)},
        )  # fmt: skip

    def __enter__(self) -> IcebergSpark:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()
        self._directory.cleanup()

    def add_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        """Give Spark a catalog of Iceberg; its tables are ``NAME.DATABASE.TABLE``."""
        prefix = f"spark.sql.catalog.{name}"
        options = {f"{prefix}.{key}": value for key, value in settings.items()}
        uncached = {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.cache-enabled": "false",
        }
        self._call({"settings": {**uncached, **options}})

    def rows(self, query: str) -> pa.Table:
        """The rows of a query in SQL."""
        out = Path(self._directory.name) / "rows.arrow"
        self._call({"query": query, "out": str(out)})
        with pa.OSFile(str(out)) as source, pa.ipc.open_file(source) as reader:
            return reader.read_all()

    def _call(self, request: Mapping[str, Any]) -> None:
        answer = self._server.call(request)
        if "error" in answer:
            raise SparkIcebergError(answer["error"])


# ----------------------------------------------------------------------------- the child


def _serve(jar: str) -> None:
    from pyspark.sql import SparkSession

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever Spark prints must not end up among the answers
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.extraJavaOptions", FAST_JVM)
        .getOrCreate()
    )
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        try:
            _do(session, json.loads(line))
            _answer(answers, {})
        except Exception as error:
            _answer(answers, {"error": _words_of(error)})
    session.stop()


def _do(session: Any, request: Mapping[str, Any]) -> None:
    for key, value in request.get("settings", {}).items():
        session.conf.set(key, value)
    if "query" in request:
        rows = session.sql(request["query"]).toArrow()
        with pa.OSFile(request["out"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)


def _words_of(error: Exception) -> str:
    """The error, and what caused it in Java."""
    words = [f"{type(error).__name__}: {error}"[:1000]]
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        words.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n  caused by ".join(words)


def _answer(answers: Any, answer: Mapping[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
