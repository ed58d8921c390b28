"""``stream-app ingest``: builds the ``spark-submit`` command line of the job and becomes it.

The configuration is checked first, so that a mistake shows at once and not after Spark's start.
Only what a JVM must know when it starts goes on the command line; everything else the job sets
itself, so that no secret of the configuration is seen in the list of processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from stream_app.app.config import AppConfig, load_config
from stream_app.app.ingest_job import add_arguments
from stream_app.app.jars import installed_spark_version, spark_kafka_jars
from stream_app.spark.session import launch_settings

SCRIPT = Path(__file__).parent / "submit" / "ingest.py"


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "ingest",
        help="run the job: Kafka CDC into a Paimon table",
        description=(
            "Read change records and write them into a Paimon table, until the source is drained "
            '(stream.trigger = "availableNow") or the job is stopped (Ctrl-C: the running epoch '
            "is finished first). It may be killed at any moment: started again with the same "
            "checkpoint it goes on, with nothing lost and nothing twice."
        ),
        epilog=(
            "examples:\n"
            "  stream-app ingest --conf conf/orders.toml\n"
            "  stream-app ingest --conf conf/orders.toml --set stream.trigger=availableNow\n"
            "  stream-app ingest --conf conf/orders.toml --print   "
            "# the spark-submit command, to run it elsewhere"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.add_argument(
        "--print", action="store_true", help="print the spark-submit command instead of running it"
    )
    return parser


def run(args: argparse.Namespace) -> int:  # noqa: RET503 - execv does not come back
    """Check the configuration and become ``spark-submit``.

    Raises:
        UsageError: the configuration is wrong.
    """
    config = load_config(args.conf, args.set, os.environ)
    command = submit_command(config, args)
    if args.print:
        print(shlex.join(command))
        return 0
    sys.stdout.flush()
    os.execv(command[0], command)


def submit_command(config: AppConfig, args: argparse.Namespace) -> list[str]:
    """The words of the command line."""
    command = [str(_spark_home() / "bin" / "spark-submit")]
    launch = launch_settings(
        config.spark,
        jars=_jars(config),
        log4j=_conf_file("log4j2.properties"),
        scheduler=_conf_file("fairscheduler.xml"),
    )
    for key, value in {**_pythons(), **launch}.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(SCRIPT), "--conf", str(args.conf)]
    for setting in args.set:
        command += ["--set", setting]
    if args.events:
        command += ["--events", str(args.events)]
    return command


def _pythons() -> dict[str, str]:
    """Without them driver and workers run the system's python3, which has no pyarrow."""
    worker = os.environ.get("PYSPARK_PYTHON", sys.executable)
    driver = os.environ.get("PYSPARK_DRIVER_PYTHON", sys.executable)
    return {"spark.pyspark.python": worker, "spark.pyspark.driver.python": driver}


def _jars(config: AppConfig) -> list[Path]:
    """Spark's Kafka source, unless the user brings it."""
    brought = {"spark.jars", "spark.jars.packages"} & config.spark.keys()
    if config.source.kind != "kafka" or brought:
        return []
    return spark_kafka_jars(installed_spark_version())


def _conf_file(name: str) -> Path | None:
    """A file of the source tree's conf/; an installed package has none, and Spark its own."""
    path = Path(__file__).resolve().parents[2] / "conf" / name
    return path if path.is_file() else None


def _spark_home() -> Path:
    import pyspark  # noqa: PLC0415 - its folder is all that is wanted, and only here

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
