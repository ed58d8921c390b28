"""One Spark session for the whole test session, in this process, as the job starts it.

tests/conftest.py imports the fixture `spark`; do not import it elsewhere. Nobody stops it or
changes its settings. A task may fail twice before its job does, so that retries can be tested.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from stream_app.app.launch.spark_submit import LOG4J, SCHEDULER
from stream_app.spark.driver.session import launch_settings, start_session
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.engines.spark_kafka_source import spark_kafka_source_jars


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = {"spark.master": "local[2,3]", "spark.driver.extraJavaOptions": fast_jvm()}
    launch = launch_settings(
        settings,
        jars=spark_kafka_source_jars(),
        log4j=LOG4J,
        scheduler=SCHEDULER,
    )
    session = start_session("tests", settings, launch)
    yield session
    session.stop()
