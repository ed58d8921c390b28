"""Starts the job's Spark session, with the settings that its JVM needs at its start.

The user's settings always override the defaults.

Source: Spark's configuration reference; `org.apache.spark.sql.execution.streaming.StreamExecution`
for the stack.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from stream_app.spark.driver.jvm_access import jvm_runs
from stream_app.spark.driver.supported_versions import check_spark

SPARK_LOG_VARIABLE = "STREAM_APP_SPARK_LOG"
"""Environment variable with the file for Spark's own log, or ``-`` for standard error."""
LOOPBACK = "127.0.0.1"
STACK = "-Xss16m"
"""Stack of the JVM's threads; the system provides only the used part.

When a query ends amid an epoch, Spark searches the error's text for an interrupt. Its regular
expression goes a few frames deeper with each character. The text of an ordinary `Py4JJavaError`,
6,000 characters, already ends a stack of 1 MB in StackOverflowError; this one bears more than
18,000. (What `epoch_committer` hands to Spark is shorter still.)"""

THROUGHPUT_OPTIONS = (
    # A pause of some milliseconds harms no epoch, and megabytes of fetched messages burden the
    # collector that Java chooses.
    "-XX:+UseParallelGC",
    # Rows stay in Python's workers; the JVM moves blocks and plans epochs. Code of the quick
    # compiler does that as fast. The best compiler would take an eighth of the job's processor.
    "-XX:TieredStopAtLevel=1",
)
"""Options of the JVMs of driver and executors; docs/performance/whole-jobs.md has their effect."""
TASK_ATTEMPTS_MAX = 4
"""Number of times that Spark tries a task on a cluster."""
_LOCAL_THREADS = re.compile(r"local(?:\[(\*|\d+)\])?")
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

SESSION_DEFAULTS: Mapping[str, str] = {
    # Compactions run beside the stream, in a separate pool.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Decoding has a cost for each Arrow batch; a larger batch leaves the processor's cache. The
    # limit in bytes bounds batches of large records, and of blocks of rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # Arrow's usual pool keeps a third more than is in use; a task's memory would leave its budget.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
    # The job counts the cores when it starts, so it waits for all executors, up to 30 s.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    # The plan of an epoch is known, so Spark need not run parts of it to find one.
    "spark.sql.adaptive.enabled": "false",
    # Workers are forked from a process that has stream_app's modules, and pandas, loaded already.
    "spark.python.daemon.module": "stream_app.spark.jobs.worker_daemon",
    # Spark's own, and the names under which Kafka and S3 keep secrets.
    "spark.redaction.regex": "(?i)secret|passw|token|access[.-]?key|jaas|credential|keystore.key",
    # The log uses only `lastProgress`.
    "spark.sql.streaming.numRecentProgressUpdates": "8",
}
_LOCAL_DEFAULTS: Mapping[str, str] = {
    # Otherwise the driver binds the host name's address, which laptops often cannot reach.
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}
_LAUNCH_PREFIXES = (
    "spark.driver.",
    "spark.jars",
    "spark.master",
    "spark.submit.",
    "spark.files",
    "spark.archives",
    "spark.pyspark.",
    "spark.app.name",
    "spark.kubernetes.",
    "spark.yarn.",
)
"""Settings that have no effect once the JVM runs."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
_LOG_CONFIGURATION = "log4j2.configurationFile"


def start_session(
    app_name: str, settings: Mapping[str, str], launch: Mapping[str, str] | None = None
) -> SparkSession:
    """Start the session with the job's defaults, which the user's settings override.

    Args:
        launch: the result of `launch_settings`, made from `settings` when absent; for a driver that
            starts its JVM itself. Under ``spark-submit`` the JVM runs already and they are left
            out.

    Raises:
        UsageError: no test covers this version of Spark.
    """
    check_spark(pyspark.__version__)
    # Otherwise the workers run the system's python3, which has no pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    merged_settings = {**SESSION_DEFAULTS, **settings}
    if "spark.master" in settings:
        merged_settings["spark.master"] = _master(settings)
    if jvm_runs():
        # The driver's options are on its command line, behind stream_app's; executors have yet to
        # start.
        merged_settings.pop(_JAVA_OPTIONS, None)
        if _EXECUTOR_OPTIONS in merged_settings:
            merged_settings[_EXECUTOR_OPTIONS] = _with_throughput_options(
                merged_settings[_EXECUTOR_OPTIONS]
            )
    else:
        merged_settings |= launch_settings(settings) if launch is None else launch
    builder = SparkSession.builder.appName(app_name)
    for key, value in merged_settings.items():
        builder = builder.config(key, value)
    _start_context(merged_settings)
    spark = builder.getOrCreate()
    if _LOG_CONFIGURATION not in spark.sparkContext.getConf().get(_JAVA_OPTIONS, ""):
        spark.sparkContext.setLogLevel("ERROR")
    return spark


def _start_context(settings: Mapping[str, str]) -> None:
    """Start Spark's context, and keep the process's own handler of Ctrl-C.

    PySpark sets a handler that calls the JVM. During another call to the JVM, such as one that
    makes the session, it ends with a trace.
    """
    handler = signal.getsignal(signal.SIGINT)
    SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def spark_log_hint(environ: Mapping[str, str]) -> str:
    """Return a pointer to Spark's log for the end of an error: ``see Spark's log: /…``."""
    path = environ.get(SPARK_LOG_VARIABLE, "-")
    return "see Spark's log above" if path == "-" else f"see Spark's log: {path}"


def launch_settings(
    settings: Mapping[str, str],
    *,
    jars: Sequence[Path] = (),
    log4j: Path | None = None,
    scheduler: Path | None = None,
    classes: Path | None = None,
) -> dict[str, str]:
    """Return stream_app's settings for ``spark-submit``, and the user's that must go there.

    Args:
        settings: the user's; they win, and their Java options come after stream_app's.
        jars: Spark's Kafka source.
        log4j: configuration of the log.
        scheduler: allocation file of the FAIR pools.
        classes: archive of Spark's classes for the driver.
    """
    master = _master(settings)
    launch = {"spark.master": master}
    if master.startswith("local"):
        launch |= _LOCAL_DEFAULTS
    if jars:
        launch["spark.jars"] = ",".join(str(jar) for jar in jars)
    if scheduler is not None:
        # A path of Hadoop, which knows no %20; without a scheme it means the cluster's HDFS.
        launch["spark.scheduler.allocation.file"] = f"file:{scheduler.absolute()}"
    launch |= {
        key: value
        for key, value in settings.items()
        if key.startswith(_LAUNCH_PREFIXES) and key != "spark.master"
    }
    options = [STACK]
    if log4j is not None:
        options.append(f"-D{_LOG_CONFIGURATION}={log4j.absolute().as_uri()}")
    if classes is not None:
        # Spark ignores an archive that does not fit, without any message.
        options += [f"-XX:SharedArchiveFile={classes.absolute()}", "-Xshare:auto", "-Xlog:cds=off"]
    launch[_JAVA_OPTIONS] = " ".join(
        (*options, _with_throughput_options(settings.get(_JAVA_OPTIONS, "")))
    )
    if not master.startswith("local"):
        launch[_EXECUTOR_OPTIONS] = _with_throughput_options(settings.get(_EXECUTOR_OPTIONS, ""))
    return launch


def _master(settings: Mapping[str, str]) -> str:
    """Return the master; a local master gets as many task tries as a cluster.

    By default it tries each task once, whatever ``spark.task.maxFailures`` says. Then a worker that
    the system kills would end the job.
    """
    master = settings.get("spark.master", "local[*]")
    threads = _LOCAL_THREADS.fullmatch(master)
    if threads is None:
        return master
    tries = settings.get("spark.task.maxFailures", str(TASK_ATTEMPTS_MAX))
    return f"local[{threads[1] or 1},{tries}]"


def _with_throughput_options(user_options: str) -> str:
    """Put `THROUGHPUT_OPTIONS` before the user's options, because Java's last option counts."""
    throughput_options = [
        option
        for option in THROUGHPUT_OPTIONS
        # Java refuses to start with two collectors.
        if not (_COLLECTOR.match(option) and _COLLECTOR.search(user_options))
    ]
    return " ".join((*throughput_options, user_options)).strip()
