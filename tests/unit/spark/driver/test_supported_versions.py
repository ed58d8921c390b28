"""A job starts with supported versions of Spark only."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

import pytest

from stream_app.errors import UsageError
from stream_app.spark.driver.supported_versions import SUPPORTED_VERSIONS, check_spark, minor_of
from tests.support.jobs.ingest_process import ROOT


@pytest.mark.parametrize("version", ["4.0.0", "4.1.3", "4.2.1", "4.3.0", "4.3.7.dev0"])
def test_a_patch_release_is_as_its_minor_version(version: str) -> None:
    check_spark(version)


@pytest.mark.parametrize("other", ["3.5.8", "4.4.0", "5.0.0", "4.30.0"])
def test_an_untested_spark_is_refused_with_a_remedy(other: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_spark(other)
    assert caught.value.problem == (
        f"Spark {other} was never tried with stream_app; Spark 4.0, 4.1, 4.2 and 4.3 were"
    )
    assert 'pip install "pyspark==4.3.*"' in caught.value.fix


def test_the_pin_of_pyspark_agrees_with_the_supported_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [pin] = [
        dependency for dependency in project["dependencies"] if dependency.startswith("pyspark")
    ]
    least, below = re.fullmatch(r"pyspark>=([\d.]+),<([\d.]+)", pin).groups()  # type: ignore[union-attr]
    major, minor = map(int, SUPPORTED_VERSIONS[-1].split("."))
    assert (minor_of(least), below) == (SUPPORTED_VERSIONS[0], f"{major}.{minor + 1}")
    assert minor_of(version("pyspark")) in SUPPORTED_VERSIONS
