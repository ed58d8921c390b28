"""``stream-app ingest``: replaces its process by ``spark-submit`` with the job's command line.

The configuration is checked first, so that a mistake shows at once and not after Spark's start.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from stream_app.app.cli.arguments.configuration import add_ingest_arguments
from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.launch.jars import installed_spark_version, jars_of_store, spark_kafka_jars
from stream_app.app.launch.spark_log import become_spark
from stream_app.app.launch.spark_submit import submit_command
from stream_app.app.source.kafka_reader import needs_sparks_source
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import absolute_location, store_of
from stream_app.spark.driver.supported_versions import check_spark

DESCRIPTION = """\
Read change records and write them into a Paimon table, until the job has read the whole source
(stream.trigger = "availableNow") or is stopped (Ctrl-C: it first finishes the running epoch). The
job may be killed at any moment: started again with the same checkpoint it continues, with nothing
lost and nothing twice."""
EPILOG = (
    "examples:\n"
    "  stream-app ingest --conf conf/orders.toml\n"
    "  stream-app ingest --conf conf/orders.toml --set stream.trigger=availableNow\n"
    "  stream-app ingest --conf conf/orders.toml --snapshot-from "
    "'jdbc:postgresql://db:5432/shop?user=me'\n"
    "  stream-app ingest --conf conf/orders.toml --print   "
    "# the spark-submit command, to run it elsewhere"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_ingest_arguments(parser)
    parser.add_argument(
        "--print", action="store_true", help="print the spark-submit command instead of running it"
    )
    parser.add_argument(
        "--snapshot-from",
        metavar="URL",
        help="read the rows of this database first, jdbc:postgresql://… or jdbc:mysql://…; "
        "sets the key source.snapshot-from",
    )


def run(args: argparse.Namespace) -> int:  # noqa: RET503 - execv does not come back
    """Check the configuration, and replace this process by ``spark-submit``.

    Raises:
        UsageError: the configuration is wrong.
    """
    if args.snapshot_from is not None:
        args.set.append(f"source.snapshot-from={args.snapshot_from}")
    config = load_config(args.conf, args.set, os.environ)
    check_spark(installed_spark_version())
    command = ingest_command(config, args)
    if args.print:
        print(shlex.join(command))
        return 0
    become_spark(
        command, f"ingest-{config.job_tables.name}", absolute_location(config.stream.checkpoint)
    )


def ingest_command(config: AppConfig, args: argparse.Namespace) -> list[str]:
    """Return the words of the command line."""
    arguments = ["--conf", str(args.conf)]
    for setting in args.set:
        arguments += ["--set", setting]
    if args.events:
        arguments += ["--events", str(args.events)]
    jars = _jars(config.source, config.stream.checkpoint, config.spark)
    command = submit_command("ingest.py", arguments, config.spark, jars)
    if config.secrets.occur_in("\n".join(command)):
        raise UsageError(
            "a secret among Spark's settings would be on the command line of its JVM, which "
            "is public on this machine",
            where="[spark]: settings of the driver, of the cluster manager and of files",
            fix="give that setting in $SPARK_HOME/conf/spark-defaults.conf",
        )
    return command


def _jars(
    source_config: SourceConfig, checkpoint: str, spark_settings: Mapping[str, str]
) -> list[Path]:
    """Return the jars of Spark's own query: its Kafka source, and S3A for a checkpoint there.

    Settings that name jars name all of them. The native reader needs none.
    """
    if {"spark.jars", "spark.jars.packages"} & spark_settings.keys():
        return []
    spark_reads_topics = needs_sparks_source(source_config)
    kafka = spark_kafka_jars(installed_spark_version()) if spark_reads_topics else []
    writes_checkpoint = spark_reads_topics or source_config.kind is SourceKind.FILES
    store = store_of(checkpoint) if writes_checkpoint else None
    return kafka + (jars_of_store(store.spark.jars) if store else [])
