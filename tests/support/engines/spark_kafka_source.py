"""Spark's own Kafka source, for tests of the jobs that it reads for.

A registry may lack the jars of the newest Spark, and the product needs them for `source.reader =
"spark"` alone. tests/conftest.py imports the fixture; do not import it elsewhere.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from stream_app.app.launch.jars import installed_spark_version, spark_kafka_jars
from stream_app.errors import StreamAppError


@cache
def spark_kafka_source_jars() -> list[Path]:
    """Return the jars, or None if the registry has none for the installed Spark."""
    try:
        return spark_kafka_jars(installed_spark_version())
    except StreamAppError:
        return []


@pytest.fixture(scope="session")
def spark_kafka_source() -> None:
    """Skip a test if the source is not available."""
    if not spark_kafka_source_jars():
        pytest.skip(f"no jars of Spark's Kafka source for Spark {installed_spark_version()}")
