"""Contains all uses of Spark beyond its public interface.

PySpark has no public access to its JVM, which Hadoop's files, signals, and metrics of the JVM and
of Spark need. An epoch uses only public functions of `SparkContext` and `RDD`.

`worker_daemon` replaces Spark's module of that name, and its docstring lists what it relies on.
`tests/integration/spark/test_spark_internals.py` tries all of this on the installed Spark, and
`tests/tidy/test_spark_internals.py` allows it nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from subprocess import Popen
from typing import Any

from py4j.java_gateway import JavaGateway
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """Return the JVM of the driver; its attributes are Java's packages."""
    return spark.sparkContext._jvm


def java_context(spark: SparkSession) -> Any:
    """Return Spark's `JavaSparkContext`; its `sc()` is Scala's."""
    return spark.sparkContext._jsc


def java_array(spark: SparkSession, java_class: Any, values: Sequence[Any]) -> Any:
    """Make an array of a Java class, with these elements."""
    array = _gateway(spark).new_array(java_class, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def enable_callbacks(spark: SparkSession) -> None:
    """Let Java call objects of this process."""
    ensure_callback_server_started(_gateway(spark))  # type: ignore[no-untyped-call]


def jvm_runs() -> bool:
    """Return whether this process has a JVM, or a port of the JVM of ``spark-submit``."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def jvm_process(spark: SparkSession) -> tuple[int, Popen[bytes] | None]:
    """Return the JVM's process id, and the process itself if this process started it."""
    gateway: Any = _gateway(spark)
    pid = int(gateway.jvm.java.lang.ProcessHandle.current().pid())
    return pid, getattr(gateway, "proc", None)


def _gateway(spark: SparkSession) -> JavaGateway:
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "the session has one"
    return gateway
