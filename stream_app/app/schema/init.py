"""``stream-app init``: a configuration in writing, of what a topic's messages tell."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.config.app_config import SourceConfig, load_config
from stream_app.app.job.first_messages import messages_at_both_ends
from stream_app.app.job.preflight import check_topics
from stream_app.app.schema.written_configuration import JobDraft, configuration_text
from stream_app.cdc.formats import DEFAULT_FORMAT, format_named, source_reader
from stream_app.cdc.message_format import SourceReader
from stream_app.errors import UsageError, WrongSourceError
from stream_app.model.schema.mapping_options import parse_mapping_options
from stream_app.model.schema.source_table import SourceTable

_EPILOG = """\
It reads a few messages from both ends of the topic, and writes neither a table nor a checkpoint.
Look through the result: types are exact where the messages bring their schema.

examples:
  stream-app init --from-topic shop.public.orders --bootstrap-servers 127.0.0.1:9092 > orders.toml
  stream-app init --from-topic shop.public.orders --conf conf/customers.toml --output orders.toml"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "init",
        help="write a configuration from a topic's messages",
        description="Write the configuration of a job from the messages of its topic.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--from-topic", required=True, metavar="TOPIC", help="the topic")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers of Kafka")
    where.add_argument(
        "--conf",
        type=Path,
        metavar="FILE",
        help="the configuration of another job: its brokers, client settings and format",
    )
    parser.add_argument(
        "--source-format", metavar="FORMAT", help=f"of the messages (default: {DEFAULT_FORMAT})"
    )
    parser.add_argument(
        "--type-mapping", default="", metavar="OPTION,…", help="Paimon's options of types"
    )
    parser.add_argument("--warehouse", default="./warehouse", metavar="FOLDER")
    parser.add_argument("--database", metavar="NAME", help="of the table (default: the source's)")
    parser.add_argument("--name", metavar="NAME", help="of the table (default: the source's)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="a new file; default: stdout")
    return parser


def run(args: argparse.Namespace) -> int:
    """Write the configuration.

    Raises:
        SourceError: no broker answers, or there is no such topic.
        WrongSourceError: the messages tell no columns, or of several tables.
        UsageError: an argument is wrong, or the file exists.
    """
    text = configuration_text(_draft(args))
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


def _draft(args: argparse.Namespace) -> JobDraft:
    mapping = parse_mapping_options(args.type_mapping.split(","), where="--type-mapping")
    source = _source(args)
    found = format_named(source.format)
    topics = check_topics(
        source.bootstrap_servers, topics=source.topics, kafka_options=source.kafka_options
    )
    messages = messages_at_both_ends(source, topics).get(args.from_topic)
    reader = source_reader(source.format, source.format_options)
    table = None if messages is None else reader.describe(messages, mapping)
    if messages is None or table is None:
        raise WrongSourceError(
            "no message tells a column",
            where=f"topic {args.from_topic}",
            fix="begin again when the topic has rows, or name their format with --source-format",
        )
    database, name = _names(args, reader, messages)
    given = {f"{found.section}.{key}": value for key, value in source.format_options.items()}
    return JobDraft(
        topic=args.from_topic,
        bootstrap_servers=source.bootstrap_servers,
        format=found.name,
        format_section=found.section,
        warehouse=args.warehouse,
        database=args.database or database,
        name=args.name or name,
        table=_checked(table),
        settings={**{f"kafka.{key}": v for key, v in _told(source).items()}, **given},
    )


def _source(args: argparse.Namespace) -> SourceConfig:
    if args.conf is None:
        source = SourceConfig(bootstrap_servers=args.bootstrap_servers)
    else:
        source = load_config(args.conf, (), os.environ).source
    if source.kind != "kafka":
        raise UsageError("its source is no topic", where=str(args.conf), fix="name another file")
    given = args.source_format or source.format
    own = source.format_options if given == source.format else {}
    return replace(
        source, format=given, format_options=own, topics=(args.from_topic,), topic_pattern=None
    )


def _told(source: SourceConfig) -> dict[str, str]:
    """Client settings without those that may be secret: people add them."""
    secret = ("password", "jaas", "secret", "key")
    return {
        key: value
        for key, value in source.kafka_options.items()
        if not any(word in key.lower() for word in secret)
    }


def _names(
    args: argparse.Namespace, reader: SourceReader, messages: pa.RecordBatch
) -> tuple[str, str]:
    """Database and name of the source's table, else of the topic.

    Raises:
        WrongSourceError: the messages tell of several tables.
    """
    tables = reader.origins(messages).tables
    if len(tables) > 1:
        raise WrongSourceError(
            f"the messages tell of {len(tables)} tables: {', '.join(map(str, sorted(tables)))}",
            where=f"topic {args.from_topic}",
            fix="write a configuration with [sync], which takes all of them",
        )
    *before, last = args.from_topic.split(".")
    if tables:
        return tables[0].schema or tables[0].database or "default", tables[0].table
    return (before[-1] if before else "default"), last


def _checked(table: SourceTable) -> SourceTable:
    odd = [each.name for each in table.columns if "`" in each.name and '"' in each.name]
    if odd:
        raise WrongSourceError(
            f"the column {odd[0]!r} has a name that no configuration can spell",
            fix="rename it at the source",
        )
    return table
