"""The workers' import path keeps Spark's archives unless their content is installed."""

from __future__ import annotations

import socket
from pathlib import Path

import pyspark
import pytest

from stream_app.spark.jobs.worker_daemon import end_quietly, without_archives

HOME = Path(pyspark.__file__).parent
SITE = str(HOME.parent)


def zips(home: Path) -> list[str]:
    folder = home / "python" / "lib"
    return [str(folder / "pyspark.zip"), str(folder / "py4j-0.10.9.9-src.zip")]


def test_archives_of_the_installed_spark_go() -> None:
    path = ["", *zips(HOME), f"{HOME}/jars/spark-core_2.13-4.1.3.jar", SITE, "/mine/py4j-fork.zip"]
    assert without_archives(path) == ["", SITE, "/mine/py4j-fork.zip"]


def test_archives_of_another_spark_stay() -> None:
    other_zips = zips(Path("/opt/spark"))
    assert without_archives([*other_zips, "/opt/spark/jars/spark-core_2.13-4.0.2.jar", SITE]) == [
        *other_zips,
        SITE,
    ]


def test_without_an_installed_spark_its_archives_stay(tmp_path: Path) -> None:
    assert without_archives([*zips(HOME), str(tmp_path)]) == [*zips(HOME), str(tmp_path)]


@pytest.mark.parametrize("ends_with", [EOFError(), BrokenPipeError()])
def test_a_worker_whose_connection_is_closed_ends_without_a_trace(ends_with: Exception) -> None:
    def worker(connection: socket.socket, is_known: bool) -> int:
        raise ends_with

    assert end_quietly(worker)(socket.socket(), True) == 1
    assert end_quietly(lambda *_: 0)(socket.socket(), True) == 0
