"""Finds the topics that ``--conf`` or another argument names for one table.

Called by `check`, which compares the table with them, and by `backfill`, which reads them again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.table_config import TableConfig
from stream_app.app.opening.job_catalog import job_table_folder
from stream_app.app.source.bootstrap_servers import parse_bootstrap_servers
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import is_same_location
from stream_app.table.file_store_table import FileStoreTable


def compared_topics(
    args: argparse.Namespace,
    table: FileStoreTable,
    job_tables: JobTables | None,
    *,
    option: str = "--source-kafka",
) -> tuple[SourceConfig | None, TableConfig]:
    """Return the topics to compare with, or None, and the settings for decoding their messages.

    Args:
        job_tables: the tables of the job, or None if no job is named.
        option: the argument that names a topic.

    Raises:
        UsageError: the configuration is wrong or belongs to another table, or a topic is misspelt.
    """
    source_config = SourceConfig()
    table_config = TableConfig()
    location = table.location
    if job_tables is None and args.source_kafka is None:
        return None, table_config
    if job_tables is not None:
        folder = job_table_folder(job_tables, table.name)
        if folder is None or not is_same_location(folder, location):
            raise UsageError(
                f"{args.conf} is the configuration of another table: {folder or job_tables.name}",
                where=location,
                fix="give the configuration of this table's job, from the folder where that job "
                f"runs; or only {option}",
            )
        source_config = job_tables.source_of(table.name)
        table_config = job_tables.table_config(table.name, table.schema.fields)
        check_is_kafka(args, source_config)
    if args.source_kafka is not None:
        bootstrap_servers, sign, topic = args.source_kafka.rpartition("/")
        if not (bootstrap_servers and sign and topic):
            raise UsageError(
                f"{option} {args.source_kafka} is not a topic",
                fix="write it as 127.0.0.1:9092/shop.public.orders",
            )
        parse_bootstrap_servers(bootstrap_servers, f"{option} {args.source_kafka}")
        if source_config.clusters:
            raise UsageError(
                f"{option} names a topic of one cluster, and the table has rows of several",
                where=f"source.clusters of {args.conf}",
                fix=f"leave {option} out: the configuration names the clusters",
            )
        source_config = replace(source_config, bootstrap_servers=bootstrap_servers, topics=(topic,))
    return source_config, table_config


def check_is_kafka(args: argparse.Namespace, source_config: SourceConfig) -> None:
    """Refuse a job that does not read topics.

    Raises:
        UsageError: the job has another kind of source.
    """
    if source_config.kind is not SourceKind.KAFKA:
        raise UsageError(
            f"the source of {args.conf} is of kind {source_config.kind.value!r}",
            fix="give the configuration of a job that reads topics of Kafka",
        )
