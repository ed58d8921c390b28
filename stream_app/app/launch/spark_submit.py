"""Builds the ``spark-submit`` command line of a job.

The command line has only the settings that the JVM needs at its start. The job sets all others
itself, so the process list shows no secret of the configuration.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_app.app.launch.class_archive import class_archive
from stream_app.app.launch.jars import spark_home
from stream_app.spark.driver.session import launch_settings

_SCRIPTS = Path(__file__).parents[1] / "submit"
LOG4J = Path(__file__).with_name("log4j2.properties")
"""The configuration of Spark's own log."""
SCHEDULER = Path(__file__).with_name("fairscheduler.xml")
"""Spark's pools for epochs and for compactions."""


def submit_command(
    script: str,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    jars: Sequence[Path] = (),
) -> list[str]:
    """Return the words of the command line.

    Args:
        script: the name of a file in ``submit/``.
        arguments: the arguments of the job.
        settings: the user's Spark settings.
    """
    home = spark_home()
    command = [str(home / "bin" / "spark-submit")]
    jvm_settings = launch_settings(
        settings,
        jars=jars,
        log4j=LOG4J,
        scheduler=SCHEDULER,
        classes=class_archive(home),
    )
    for key, value in {**_python_settings(), **jvm_settings}.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, str(_SCRIPTS / script), *arguments]


def _python_settings() -> dict[str, str]:
    """Return the settings of Python for driver and workers.

    Spark's default is the system's python3.
    """
    worker = os.environ.get("PYSPARK_PYTHON", sys.executable)
    driver = os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)
    return {"spark.pyspark.python": worker, "spark.pyspark.driver.python": driver}
