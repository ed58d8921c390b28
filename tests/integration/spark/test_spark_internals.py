"""The installed Spark has the internals that the product uses beyond Spark's public interface."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stream_app.app.observe.metrics.jvm_metrics import JvmCollector
from stream_app.spark.driver import jvm_access
from stream_app.spark.driver.hadoop_files import HadoopFiles
from stream_app.spark.driver.supported_versions import SUPPORTED_VERSIONS, minor_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Taken:
    """A receiver that Java calls with each of its values."""

    def __init__(self) -> None:
        self.values: list[str] = []

    def accept(self, value: str) -> None:
        """Implements `java.util.function.Consumer`."""
        self.values.append(value)

    class Java:
        implements = ("java.util.function.Consumer",)


def test_the_installed_spark_is_one_that_is_supported(spark: SparkSession) -> None:
    assert minor_of(spark.version) in SUPPORTED_VERSIONS


def test_javas_objects_arrays_and_calls(spark: SparkSession) -> None:
    java = jvm_access.jvm(spark)
    assert int(java.java.lang.ProcessHandle.current().pid()) > 0
    assert jvm_access.java_context(spark).sc().version() == spark.version
    array = jvm_access.java_array(spark, java.java.lang.String, ["a", "b"])
    assert list(array) == ["a", "b"]
    assert jvm_access.jvm_runs()
    jvm_access.enable_callbacks(spark)
    java_list, taken = java.java.util.ArrayList(), Taken()
    java_list.add("a")
    java_list.forEach(taken)
    assert taken.values == ["a"]


def test_numbers_of_the_jvm(spark: SparkSession) -> None:
    collector = JvmCollector("t")
    collector.attach(spark)
    families = {family.name for family in collector.collect()}
    assert {"stream_app_jvm_heap_used_bytes", "stream_app_executors"} <= families


def test_files_that_hadoop_alone_knows(spark: SparkSession, tmp_path: Path) -> None:
    files, folder = HadoopFiles(spark), f"file:{tmp_path}/checkpoint"
    assert files.list_names(folder) == []
    assert files.create_if_absent(f"{folder}/1", b"one")
    assert not files.create_if_absent(f"{folder}/1", b"other")
    files.overwrite(f"{folder}/2", b"two")
    assert sorted(files.list_names(folder)) == ["1", "2"]
    assert (files.read_bytes(f"{folder}/1"), files.read_bytes(f"{folder}/2")) == (b"one", b"two")
    files.delete(f"{folder}/1")
    files.delete(f"{folder}/1")
    assert not files.exists(f"{folder}/1")


def test_a_failed_overwrite_leaves_no_temporary_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "target" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="target"):
        HadoopFiles(spark).overwrite(f"file:{tmp_path}/target", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
