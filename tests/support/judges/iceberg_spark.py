"""Runs SQL in Iceberg's own runtime, in a separate Spark, as a judge of the rows.

Iceberg's jar must be on Spark's class path from the start, so this Spark runs in a child. The file
is the caller's side and, started as a module, the child.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, installed_spark_version, jar_folder
from tests.support.engines.fast_jvm import FAST_JVM
from tests.support.judges.judge_process import Answering, JudgeProcess, serve, write_rows

_VERSION = "1.11.0"
_SPARK_OF_RUNTIME = "4.1"
_RUNTIME = JarSet(
    name=f"iceberg-spark-{_VERSION}",
    coordinates=(
        MavenCoordinate(
            "org.apache.iceberg", f"iceberg-spark-runtime-{_SPARK_OF_RUNTIME}_2.13", _VERSION
        ),
    ),
    names_every_jar=True,
)


class SparkIcebergError(Exception):
    """An error of Spark, with its causes."""


def why_no_iceberg_in_spark() -> str | None:
    """Return why the installed Spark cannot be a judge, or None if it can."""
    version = installed_spark_version()
    if version.startswith(f"{_SPARK_OF_RUNTIME}."):
        return None
    return f"the runtime of Iceberg {_VERSION} is for Spark {_SPARK_OF_RUNTIME}, not {version}"


class IcebergSpark(JudgeProcess):
    """Spark with Iceberg's runtime in a child process.

    Args:
        first_jars: stand before Spark's own on the class path.
    """

    error = SparkIcebergError

    def __init__(self, first_jars: Sequence[Path] = ()) -> None:
        [jar] = JarCache(jar_folder()).resolve(_RUNTIME)
        super().__init__(sys.executable, str(jar), ":".join(map(str, first_jars)))

    def add_catalog(self, name: str, settings: Mapping[str, str]) -> None:
        """Give Spark a catalog of Iceberg; its tables are ``NAME.DATABASE.TABLE``."""
        prefix = f"spark.sql.catalog.{name}"
        options = {f"{prefix}.{key}": value for key, value in settings.items()}
        uncached_settings = {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.cache-enabled": "false",
        }
        self._call({"settings": {**uncached_settings, **options}})

    def rows(self, query: str) -> pa.Table:
        """Return the rows of a query in SQL."""
        return self._rows({"query": query})


# ----------------------------------------------------------------------------- the child


def _start() -> Answering:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", sys.argv[1])
        .config("spark.driver.extraClassPath", sys.argv[2])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.extraJavaOptions", FAST_JVM)
        .getOrCreate()
    )
    atexit.register(session.stop)
    return lambda request: _answer(session, request)


def _answer(session: SparkSession, request: Mapping[str, Any]) -> Mapping[str, Any]:
    for key, value in request.get("settings", {}).items():
        session.conf.set(key, value)
    if "query" in request:
        write_rows(session.sql(request["query"]).toArrow(), request["out"])
    return {}


def _words_of(error: BaseException) -> str:
    """Return the error, and what caused it in Java."""
    words = [f"{type(error).__name__}: {error}"[:1000]]
    cause = getattr(error, "java_exception", None)
    while cause is not None:
        words.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n  caused by ".join(words)


if __name__ == "__main__":
    serve(_start, _words_of)
