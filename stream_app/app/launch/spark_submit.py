"""The ``spark-submit`` command line of a job.

Only what a JVM must know when it starts goes on it; everything else the job sets itself, so that no
secret of the configuration is seen in the list of processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_app.app.launch.class_archive import class_archive
from stream_app.app.launch.jars import spark_home
from stream_app.spark.session import launch_settings

_SCRIPTS = Path(__file__).parents[1] / "submit"


def submit_command(
    script: str,
    arguments: Sequence[str],
    settings: Mapping[str, str],
    jars: Sequence[Path] = (),
) -> list[str]:
    """The words of the command line.

    Args:
        script: name of a file in ``submit/``.
        arguments: of the job.
        settings: the user's Spark settings.
    """
    home = spark_home()
    command = [str(home / "bin" / "spark-submit")]
    launch = launch_settings(
        settings,
        jars=jars,
        log4j=_conf_file("log4j2.properties"),
        scheduler=_conf_file("fairscheduler.xml"),
        classes=class_archive(home),
    )
    for key, value in {**_pythons(), **launch}.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, str(_SCRIPTS / script), *arguments]


def _pythons() -> dict[str, str]:
    """Without them driver and workers run the system's python3, which has no pyarrow."""
    worker = os.environ.get("PYSPARK_PYTHON", sys.executable)
    driver = os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)
    return {"spark.pyspark.python": worker, "spark.pyspark.driver.python": driver}


def _conf_file(name: str) -> Path | None:
    """A file of the source tree's conf/; an installed package has none, and Spark its own."""
    path = Path(__file__).resolve().parents[3] / "conf" / name
    return path if path.is_file() else None
