"""The Spark session of the job, and what must be said when its JVM starts.

Defaults give way to the user's settings, always.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
STACK = "-Xss16m"
"""Stack of the JVM's threads. Spark searches the text of a failure with regular expressions, whose
depth grows with the text; with the default of 1 MB a failed epoch can end in StackOverflowError."""

SESSION_DEFAULTS: Mapping[str, str] = {
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Few large Arrow batches: decoding has a cost for each. The bytes bound large records.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # The plan of an epoch is known: nothing is to be found out by running parts of it.
    "spark.sql.adaptive.enabled": "false",
    # What the log tells of an epoch is what `lastProgress` shows: more is not looked at.
    "spark.sql.streaming.numRecentProgressUpdates": "8",
}
_LAUNCH_PREFIXES = (
    "spark.driver.",
    "spark.jars",
    "spark.master",
    "spark.submit.",
    "spark.files",
    "spark.archives",
    "spark.app.name",
    "spark.kubernetes.",
    "spark.yarn.",
)
"""Settings that are too late once the JVM runs."""


def start_session(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """The session, with the defaults of the job below the user's settings."""
    # Without it the workers run the system's python3, which has no pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**SESSION_DEFAULTS, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def launch_settings(
    settings: Mapping[str, str],
    *,
    jars: Sequence[Path] = (),
    log4j: Path | None = None,
    scheduler: Path | None = None,
) -> dict[str, str]:
    """Settings for ``spark-submit``: the user's that a running JVM cannot take, and ours.

    Args:
        jars: Spark's Kafka source.
        log4j: configuration of the log.
        scheduler: allocation file of the FAIR pools.
    """
    master = settings.get("spark.master", "local[*]")
    launch = {"spark.master": master}
    if master.startswith("local"):
        # The driver binds the host name's address otherwise, which laptops often cannot reach.
        launch |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if jars:
        launch["spark.jars"] = ",".join(str(jar) for jar in jars)
    if scheduler is not None:
        launch["spark.scheduler.allocation.file"] = scheduler.as_uri()
    launch |= {key: value for key, value in settings.items() if key.startswith(_LAUNCH_PREFIXES)}
    options = [STACK]
    if log4j is not None:
        options.append(f"-Dlog4j2.configurationFile={log4j.as_uri()}")
    options.append(settings.get("spark.driver.extraJavaOptions", ""))
    launch["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    return launch
