"""Starts the process from which Spark forks Python workers, with the tasks' modules loaded.

Spark starts this module by the setting ``spark.python.daemon.module``. It runs Spark's own daemon,
with workers that end without a trace. Three things make small epochs cheap:

* What every worker imports at its first task is imported once, before the fork.
* Spark puts its own archives on the import path, among them a jar of thousands of entries. Each
  task makes Python read their directories again. The jar holds no Python, and the zips hold what is
  installed beside this interpreter, when that is the same Spark.
* A worker collects garbage after each task, and skips the objects that existed before the fork.

Source: PySpark's `daemon.py`; `PythonUtils.sparkPythonPath` for the path.
"""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from stream_app.cdc.json_records.decoder_choice import compile_ahead
from stream_app.process.lean_imports import lean_imports

PRELOADED_MODULES = (
    "confluent_kafka",
    "pandas",
    "pyspark.worker",
    "stream_app.cdc.lower_case_names",
    "stream_app.cdc.pipeline_steps.alias_step",
    "stream_app.cdc.pipeline_steps.description_step",
    "stream_app.message_format_registry",
    "stream_app.spark.jobs.range_epochs",
    "stream_app.epochs.stages.route_task",
    "stream_app.epochs.stages.write_task",
    "stream_app.table.kinds.bucket_compaction",
)


def main() -> None:
    """Run the daemon."""
    sys.path[:] = without_archives(sys.path)
    # A worker collects garbage after each task, and skips the objects that exist here.
    with lean_imports(skips_pandas=False):  # PySpark's workers import it
        for name in PRELOADED_MODULES:
            importlib.import_module(name)
        compile_ahead()
    # Each task scans the cached directories again, so only the import path's directories stay.
    for path in sys.path_importer_cache.keys() - set(sys.path):
        del sys.path_importer_cache[path]
    daemon: Any = importlib.import_module("pyspark.daemon")
    daemon.worker = end_quietly(daemon.worker)
    daemon.manager()


def end_quietly(run_worker: Callable[[socket.socket, bool], int]) -> Callable[..., int]:
    """Wrap a worker: Spark ends workers by closing their connections, which is not an error."""

    def run(connection: socket.socket, is_known: bool) -> int:
        try:
            return run_worker(connection, is_known)
        except (EOFError, BrokenPipeError):
            return 1

    return run


def without_archives(path: list[str]) -> list[str]:
    """Return an import path without the archives of Spark that no task needs."""
    path = [entry for entry in path if not _is_spark_jar(entry)]
    archives = [entry for entry in path if _is_spark_zip(entry)]
    remaining_path = [entry for entry in path if entry not in archives]
    installed_spec = PathFinder.find_spec("pyspark", remaining_path)
    if installed_spec is None or installed_spec.origin is None:
        return path
    # A zip …/pyspark/python/lib/pyspark.zip holds what is in …/pyspark itself.
    home = Path(installed_spec.origin).resolve().parent
    return (
        remaining_path if all(home in Path(entry).resolve().parents for entry in archives) else path
    )


def _is_spark_jar(entry: str) -> bool:
    name = Path(entry).name
    return name.startswith("spark-core_") and name.endswith(".jar")


def _is_spark_zip(entry: str) -> bool:
    name = Path(entry).name
    return name == "pyspark.zip" or (name.startswith("py4j-") and name.endswith("-src.zip"))


if __name__ == "__main__":
    main()
