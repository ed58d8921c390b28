"""``stream-app init``: writes a configuration from a topic's messages or a database's table."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stream_app.app.config.app_config import load_config
from stream_app.app.config.secrets import is_secret
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.ops.written_configuration import JobDraft, configuration_text
from stream_app.app.source.first_messages import format_notice, messages_at_both_ends
from stream_app.app.source.jdbc_table import jdbc_table
from stream_app.app.source.topic_checks import checked_topics
from stream_app.cdc.column_drift import INEXACT, JSON_AS
from stream_app.cdc.message_format import SourceExtractor
from stream_app.errors import UsageError, WrongSourceError
from stream_app.message_format_registry import DEFAULT_FORMAT, format_named, make_source_extractor
from stream_app.model.source.mapping_options import (
    InexactTimes,
    JsonColumns,
    MappingOptions,
    parse_mapping_options,
)
from stream_app.model.source.source_table import SourceTable
from stream_app.model.source.topic_name import cluster_and_name
from stream_app.network.jdbc import SERVERS, parse_jdbc_url
from stream_app.planning.sync.column_remarks import remarks_of_new
from stream_app.planning.sync.partition_roots import PARTITIONED_REASON, PUBLISH_FIX

DESCRIPTION = (
    "Write the configuration of a job from the messages of its topic, or from the "
    "definition of the table in its database."
)
EPILOG = """\
The command reads a few messages at both ends of a topic, or the definition of a table in a
database. It creates neither a table nor a checkpoint. Review the result: types of a topic are exact
only if the messages bring their schema. The result never has the database's user or password.

examples:
  stream-app init --from-topic shop.public.orders --bootstrap-servers 127.0.0.1:9092 > orders.toml
  stream-app init --from-topic shop.public.orders --conf conf/customers.toml --output orders.toml
  stream-app init --from-jdbc "jdbc:postgresql://db:5432/shop?user=me" --table public.orders \\
    --topic shop.public.orders --bootstrap-servers 127.0.0.1:9092"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    sources = parser.add_mutually_exclusive_group(required=True)
    help_of_topic = "read messages of this topic; NAME/TOPIC in a further cluster of --conf"
    sources.add_argument("--from-topic", metavar="TOPIC", help=help_of_topic)
    sources.add_argument(
        "--from-jdbc",
        metavar="URL",
        help="read the definition of a table in this database: jdbc:postgresql:…, jdbc:mysql:…",
    )
    parser.add_argument(
        "--table", metavar="[SCHEMA.]NAME", help="with --from-jdbc: the table in the database"
    )
    parser.add_argument(
        "--topic", metavar="TOPIC", help="with --from-jdbc: the topic of the table's changes"
    )
    brokers = parser.add_mutually_exclusive_group(required=True)
    brokers.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT,…", help="the addresses of Kafka's brokers"
    )
    brokers.add_argument(
        "--conf",
        type=Path,
        metavar="FILE",
        help="take brokers, client settings and format from the configuration of this other job",
    )
    parser.add_argument(
        "--source-format",
        metavar="FORMAT",
        help=f"the format of the messages (default: {DEFAULT_FORMAT})",
    )
    parser.add_argument(
        "--type-mapping",
        default="",
        metavar="OPTION,…",
        help="Paimon's options that map the types of the source",
    )
    parser.add_argument(
        "--inexact",
        default=InexactTimes.NUMBER.value,
        choices=[way.value for way in InexactTimes],
        help="how the job keeps times of day that Paimon's TIME cannot hold (default: number)",
    )
    parser.add_argument(
        "--json-as",
        default=JsonColumns.STRING.value,
        choices=[kind.value for kind in JsonColumns],
        help="the type of columns with documents, such as PostgreSQL's jsonb (default: string)",
    )
    parser.add_argument("--warehouse", default="./warehouse", metavar="FOLDER")
    parser.add_argument(
        "--database", metavar="NAME", help="the table's database (default: the source's)"
    )
    parser.add_argument("--name", metavar="NAME", help="the table's name (default: the source's)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the configuration into this new file; default: standard output",
    )


def run(args: argparse.Namespace) -> int:
    """Write the configuration.

    Raises:
        SourceError: no broker responds, or the topic does not exist.
        WrongSourceError: the messages show no columns, or belong to several tables.
        UsageError: an argument is wrong, or the file exists.
    """
    text = configuration_text(
        _draft_of_topics(args) if args.from_jdbc is None else _draft_of_table(args)
    )
    if args.output is None:
        print(text, end="")
        return 0
    try:
        with args.output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{args.output} exists", fix="name another file with --output") from None
    print(f"wrote {args.output}; run it with: stream-app ingest --conf {args.output}")
    return 0


def _draft_of_table(args: argparse.Namespace) -> JobDraft:
    """Return a draft by a table of the database, and print which columns have no counterpart."""
    options = _mapping_options(args)
    if args.topic is None:
        raise UsageError("--from-jdbc needs --topic", fix="name the topic with the table's changes")
    source_config = _source(args, args.topic)
    definition = jdbc_table(
        parse_jdbc_url(args.from_jdbc, "--from-jdbc", SERVERS), args.table, options
    )
    _print_remarks(definition.table, source_config)
    if definition.is_root:
        print(f"{PARTITIONED_REASON}\n  to fix: {PUBLISH_FIX}", file=sys.stderr)
    for column in definition.untyped_columns:
        print(f"{column} has no counterpart: the column is STRING", file=sys.stderr)
    return _job_draft(
        args,
        source_config,
        (definition.schema, definition.name),
        definition.table,
        f"the table {definition.schema}.{definition.name}",
    )


def _mapping_options(args: argparse.Namespace) -> MappingOptions:
    names = args.type_mapping.split(",")
    return parse_mapping_options(
        names,
        inexact=InexactTimes(args.inexact),
        json_columns=JsonColumns(args.json_as),
        where="--type-mapping",
    )


def _draft_of_topics(args: argparse.Namespace) -> JobDraft:
    """Return a draft by the messages of a topic.

    Raises:
        WrongSourceError: no message shows a column.
    """
    mapping = _mapping_options(args)
    if args.table is not None or args.topic is not None:
        raise UsageError("--table and --topic are for --from-jdbc", fix="leave them out")
    source_config = _source(args, args.from_topic)
    topics = checked_topics(source_config)
    [topic] = source_config.topics
    messages = messages_at_both_ends(source_config, topics).get(topic)
    source_extractor = make_source_extractor(source_config.format, source_config.format_options)
    table = None if messages is None else source_extractor.describe(messages, mapping)
    if messages is None or table is None:
        notice = None if messages is None else format_notice(source_config.format, [messages])
        reason = "" if notice is None else f": {notice.problem}"
        raise WrongSourceError(
            f"no message shows a column{reason}",
            where=f"topic {args.from_topic}",
            fix="begin again when the topic has rows, or name their format with --source-format",
        )
    _print_remarks(table, source_config)
    names = _source_names(topic, source_extractor, messages)
    return _job_draft(
        args, source_config, names, table, f"the messages of the topic {args.from_topic}"
    )


def _print_remarks(table: SourceTable, source_config: SourceConfig) -> None:
    """Print how the table will lose values of its columns."""
    message_format = format_named(source_config.format)
    for remark in remarks_of_new(table.columns):
        print(
            f"{remark.text()}\n  to fix: {remark.remedy(message_format.full_key)}", file=sys.stderr
        )


def _job_draft(
    args: argparse.Namespace,
    source_config: SourceConfig,
    names: tuple[str, str],
    table: SourceTable,
    described_by: str,
) -> JobDraft:
    """Return the draft of a job.

    Args:
        names: the names of the database and of the table.
        described_by: the source of the table's description.
    """
    message_format = format_named(source_config.format)
    options = dict(source_config.format_options)
    if args.inexact != InexactTimes.NUMBER.value:
        options[INEXACT] = args.inexact
    if args.json_as != JsonColumns.STRING.value:
        options[JSON_AS] = args.json_as
    format_settings = {f"{message_format.section}.{key}": value for key, value in options.items()}
    return JobDraft(
        described_by=described_by,
        topic=source_config.topics[0],
        bootstrap_servers=source_config.bootstrap_servers,
        format=message_format.name,
        format_section=message_format.section,
        warehouse=args.warehouse,
        database=args.database or names[0],
        name=args.name or names[1],
        table=_checked_table(table),
        settings={
            **{
                f"kafka.{key}": value
                for key, value in settings_without_secrets(source_config).items()
            },
            **format_settings,
        },
    )


def _source(args: argparse.Namespace, topic: str) -> SourceConfig:
    """Return the source of the drafted job, which has only the topic and its cluster."""
    if args.conf is None:
        source_config = SourceConfig(bootstrap_servers=args.bootstrap_servers)
    else:
        source_config = load_config(args.conf, (), os.environ).source
    if source_config.kind is not SourceKind.KAFKA:
        raise UsageError("its source is not a topic", where=str(args.conf), fix="name another file")
    name, topic = cluster_and_name(topic)
    clusters = {cluster.name: cluster for cluster in source_config.kafka_clusters}
    if name not in clusters:
        raise UsageError(
            f"no cluster {name!r} is configured for the topic {topic}",
            where=str(args.conf or "--bootstrap-servers"),
            fix=f"name a section [source.clusters.{name}] in --conf, or the topic alone",
        )
    format_name = args.source_format or source_config.format
    format_options = source_config.format_options if format_name == source_config.format else {}
    return replace(
        source_config,
        bootstrap_servers=clusters[name].bootstrap_servers,
        kafka_options=clusters[name].kafka_options,
        topics=(topic,),
        topic_pattern=None,
        clusters={},
        format=format_name,
        format_options=format_options,
    )


def settings_without_secrets(source_config: SourceConfig) -> dict[str, str]:
    """Return settings of Kafka's client for the file, without secrets, which the user adds."""
    return {key: value for key, value in source_config.kafka_options.items() if not is_secret(key)}


def _source_names(
    topic: str, source_extractor: SourceExtractor, messages: pa.RecordBatch
) -> tuple[str, str]:
    """Return the database and the name of the source table, or of the topic.

    Raises:
        WrongSourceError: the messages belong to several tables.
    """
    tables = source_extractor.find_origins(messages).tables
    if len(tables) > 1:
        raise WrongSourceError(
            f"the messages belong to {len(tables)} tables: {', '.join(map(str, sorted(tables)))}",
            where=f"topic {topic}",
            fix="write a configuration with [sync], which takes all of them",
        )
    *parents, name = topic.split(".")
    if tables:
        return tables[0].schema or tables[0].database or "default", tables[0].table
    return (parents[-1] if parents else "default"), name


def _checked_table(table: SourceTable) -> SourceTable:
    unquotable = [
        column.name for column in table.columns if "`" in column.name and '"' in column.name
    ]
    if unquotable:
        raise WrongSourceError(
            f"the column {unquotable[0]!r} has a name that no configuration can spell",
            fix="rename it at the source",
        )
    return table
