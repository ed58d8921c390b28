"""Java options with which the job starts in half the time; nothing of what it does changes."""

from __future__ import annotations

from functools import cache

from stream_app.app.launch.class_archive import create_class_archive
from stream_app.app.launch.jars import spark_home

FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For ``spark.driver.extraJavaOptions``: the JVM's quick compiler only.

A configuration that a test writes has it; only tests that start Spark make the archive too.
"""


@cache
def fast_jvm() -> str:
    """`FAST_JVM`, and the archive of Spark's classes, made once and kept beside the jars.

    Making the archive runs Spark, so only what is about to start a job calls this.
    """
    create_class_archive(spark_home())
    return FAST_JVM
