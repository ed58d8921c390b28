"""The arguments of ``stream-app compact`` and of its job under ``spark-submit``."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_app.app.cli.arguments.named_table import open_named_job_table
from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.arguments.table import add_table, open_table_argument
from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import is_secret
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.errors import UsageError
from stream_app.model.files.row_order import OrderStrategy, RowOrder
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.core_options import option_problems
from stream_app.model.options.option import parse_duration_ms
from stream_app.predicate.parser import parse_predicate
from stream_app.table.opening import require_alterable, with_configuration
from stream_app.table.versions.partition_filter import PartitionFilter


def add_compact_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_table(parser)
    parser.add_argument(
        "--conf",
        type=Path,
        metavar="FILE",
        help="the configuration of the table's job; the command takes the table by its name, "
        "file systems, Spark settings, form of the log, webhook and OpenTelemetry from "
        "it",
    )
    parser.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="K=V,…",
        help="compact only this partition, e.g. dt=2026-11-20; may be repeated",
    )
    parser.add_argument(
        "--where", metavar="CONDITION", help="compact only partitions that meet this condition"
    )
    parser.add_argument(
        "--partition-idle-time",
        metavar="DURATION",
        help="compact only partitions without new files for this time, e.g. 1h",
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--full",
        action="store_true",
        help="merge all files of each bucket (default without --follow)",
    )
    mode.add_argument(
        "--minor", action="store_true", help="merge only what the table's triggers select"
    )
    _add_order(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="run as a service: look for work every continuous.discovery-interval (10 s), until "
        "Ctrl-C",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="with --follow: serve metrics for Prometheus at http://…:PORT/metrics",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="set a table option, or a Spark setting (spark.…=…), for this run; may be repeated",
    )
    # Under spark-submit the job itself sees a pipe, whatever the output is.
    parser.add_argument("--terminal-width", type=int, default=0, help=argparse.SUPPRESS)


def _add_order(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--order-strategy",
        choices=tuple(strategy.value for strategy in OrderStrategy),
        help="sort the rows of each partition of a table without key and buckets; needs --order-by",
    )
    parser.add_argument(
        "--order-by",
        metavar="A,B",
        help="sort the rows by these columns, separated by commas",
    )


def compaction_settings(args: argparse.Namespace, config: AppConfig | None) -> CompactionSettings:
    """Return the compaction that the arguments ask for.

    Args:
        config: the configuration of ``--conf``, with the keys of ``--set``; None without one.

    Raises:
        UsageError: an argument is wrong.
        TableNotFoundError: the table does not exist.
        UnsupportedTableError: stream_app cannot write the table, or its options contradict the
            arguments.
    """
    if args.full and args.follow:
        raise UsageError(
            "--full and --follow do not go together: each flush would rewrite the whole bucket",
            fix="use --follow alone; 'compaction.optimization-interval' says how often each whole "
            "bucket is merged",
        )
    metrics_port = args.metrics_port
    if metrics_port is not None and not (args.follow and 0 < metrics_port < 65536):
        raise UsageError(
            f"--metrics-port {metrics_port} needs --follow, and a port from 1 to 65535",
            fix="give both, or leave it out",
        )
    options, spark_settings = _settings(args.set)
    if config is None:
        table = open_table_argument(args.table)
    else:
        table = open_named_job_table(args.table, config.job_tables, str(args.conf))
        spark_settings = {**config.spark, **spark_settings}
    table = with_configuration(require_alterable(table), {**options, WRITE_ONLY.key: "false"})
    partition_filter = PartitionFilter(
        partitions=tuple(map(partition_argument, args.partition)),
        condition=None if args.where is None else parse_predicate(args.where, table.schema.fields),
        idle_ms=None if args.partition_idle_time is None else _idle_ms(args.partition_idle_time),
    )
    partition_filter.check(table)
    return CompactionSettings(
        table=table,
        partition_filter=partition_filter,
        is_full=not (args.minor or args.follow),
        follows=args.follow,
        spark_settings=spark_settings,
        metrics_port=metrics_port,
        terminal_width=args.terminal_width,
        stream_config=StreamConfig() if config is None else config.stream,
        row_order=_row_order(args),
    )


def _row_order(args: argparse.Namespace) -> RowOrder | None:
    if (args.order_strategy is None) != (args.order_by is None):
        raise UsageError(
            "--order-strategy and --order-by go together", fix="give both, or leave both out"
        )
    if args.order_strategy is None:
        return None
    if args.follow or args.minor:
        raise UsageError(
            "a sorted compaction rewrites whole partitions, once",
            fix="leave --follow and --minor out",
        )
    columns = tuple(name.strip() for name in args.order_by.split(","))
    return RowOrder(OrderStrategy(args.order_strategy), columns)


def _settings(words: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the table options and the Spark settings of ``--set``."""
    settings = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign:
            raise UsageError(f"--set {word} has no value", fix="write OPTION=VALUE")
        if is_secret(key):
            raise UsageError(
                f"--set {key.strip()}: is a secret, and command lines are public on this machine",
                fix="give Spark's secrets in $SPARK_HOME/conf/spark-defaults.conf",
            )
        settings[key.strip()] = value.strip()
    spark_settings = {key: value for key, value in settings.items() if key.startswith("spark.")}
    options = {key: value for key, value in settings.items() if key not in spark_settings}
    if problems := option_problems(options):
        raise UsageError("; ".join(problems), fix="correct --set")
    return options, spark_settings


def _idle_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(
            f"--partition-idle-time {text}: {error}", fix="write it as 30min, 1h or 2d"
        ) from None
