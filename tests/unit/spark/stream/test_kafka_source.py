"""The error about missing jars of Spark's Kafka source names the other reader."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow]
PROGRAM = """
from pyspark.sql import SparkSession
from stream_app.errors import UsageError
from stream_app.spark.stream.kafka_source import KafkaSource

spark = SparkSession.builder.master("local[1]").getOrCreate()
try:
    KafkaSource(bootstrap_servers="127.0.0.1:1", topics=("t",)).read_stream(spark)
except UsageError as error:
    print(error)
spark.stop()
"""


@pytest.mark.variant
def test_an_error_about_missing_jars_names_the_other_reader() -> None:
    """The program needs its own process, because the session of the other tests has the jars."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert "Spark has no Kafka source here" in result.stdout
    assert "set it to 'native', which needs no jars" in result.stdout
