"""``stream-app changelog``: prints the changed rows of each snapshot, or sends them to Kafka."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import pyarrow as pa

from stream_app.app.cli.arguments.parsed_texts import columns_argument
from stream_app.app.cli.arguments.table import add_table, open_table_argument
from stream_app.app.cli.output.debezium_output import DebeziumConverter
from stream_app.app.cli.output.row_output import write_jsonl, write_table
from stream_app.app.source.kafka_output import KafkaOutput
from stream_app.errors import UsageError
from stream_app.planning.read.stream_start import StartMode, StreamStart, stream_start
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    ChangelogBatch,
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.followed_snapshot import followed_snapshot
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.versions.time_travel import ms_since_1970

_DEBEZIUM = "debezium-json"
DESCRIPTION = "Print the changes that each snapshot brought, oldest first."
EPILOG = """\
Row kinds: +I a new row, -U and +U a row before and after an update, -D a row that was deleted.
The table's changelog-producer decides: 'input' has every change with its old row; 'none' has only
the new rows and the deletes, as they were flushed.
Within a bucket, changes of one key come in their order; different keys come in key order.

where to begin:
  N               the changes of snapshot N and later      N-full  all rows of N, then changes
  TIME            snapshots from this time on: ISO 8601, local without a zone
  earliest        the earliest snapshot
  latest          changes from now on                      latest-full     all rows, then changes
  compacted-full  all rows of the latest compacted snapshot, then changes

formats:
  table          aligned columns; with --follow one for each snapshot
  jsonl          a line a change; `stream-app read --help` explains the values:
                 {"_row_kind":"+U","_snapshot":7,"id":1,"amount":12.50}
  debezium-json  Debezium's envelope, a line a message; -U and +U become one of op u:
                 {"before":null,"after":{"id":1,"amount":"12.50"},"op":"c","ts_ms":…,"source":{…}}
                 `ingest` reads it with decimal.handling.mode = string and time.precision.mode =
                 isostring, Flink's debezium-json with timestamp-format.standard = ISO-8601

The table stores a consumer's progress: a command with the same --consumer continues behind the
last snapshot that was written completely, at least once. Expiry keeps what it has yet to take.

examples:
  stream-app changelog warehouse/shop.db/orders --from 3 --to 5
  stream-app changelog warehouse/shop.db/orders --follow --format jsonl
  stream-app changelog warehouse/shop.db/orders --follow --from latest-full --consumer search \\
    --to-kafka localhost:9092/orders-changes"""
EARLIEST = "earliest"
_NAMED_STARTS = (
    StartMode.LATEST.value,
    StartMode.LATEST_FULL.value,
    StartMode.COMPACTED_FULL.value,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        help="begin here, see below; default: earliest",
    )
    parser.add_argument(
        "--to",
        type=int,
        dest="end",
        metavar="N",
        help="end with the changes of this snapshot; default: the latest",
    )
    parser.add_argument(
        "--follow", action="store_true", help="wait for new snapshots, until --to or Ctrl-C"
    )
    parser.add_argument("--columns", metavar="A,B", help="print these columns, in this order")
    parser.add_argument(
        "--where",
        metavar="CONDITION",
        help="print the changes of rows that meet this condition, as in `read`",
    )
    parser.add_argument(
        "--consumer",
        metavar="ID",
        help="continue where this consumer stopped, and store its progress in the table",
    )
    parser.add_argument(
        "--ignore-progress",
        action="store_true",
        help="begin at --from, even if the consumer has progress",
    )
    parser.add_argument(
        "--format",
        choices=("table", "jsonl", _DEBEZIUM),
        help=f"the format of the output; default: table; with --to-kafka {_DEBEZIUM}",
    )
    parser.add_argument(
        "--to-kafka",
        metavar="BROKERS/TOPIC",
        help="send the changes to HOST:PORT[,…]/TOPIC instead of printing them; a message's "
        "key is the primary key as JSON",
    )


def run(args: argparse.Namespace) -> int:
    """Print or send changes as they appear.

    Raises:
        UsageError: a snapshot has expired or does not exist, or arguments contradict each other.
    """
    # A supervisor's SIGTERM ends this as Ctrl-C does: the producer is closed, the exit is clean.
    earlier_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(args)
    except KeyboardInterrupt:
        if not args.follow:
            raise
    finally:
        signal.signal(signal.SIGTERM, earlier_handler)
    return 0


def _run(args: argparse.Namespace) -> None:
    """Write the changelog to Kafka or to stdout, in the format of the arguments."""
    if args.to_kafka is not None and args.format not in (None, _DEBEZIUM):
        raise UsageError(
            f"--to-kafka sends {_DEBEZIUM}, not {args.format}", fix="leave --format out"
        )
    table = open_table_argument(args.table)
    if args.to_kafka is not None or args.format == _DEBEZIUM:
        _check_keys(table, columns_argument(args.columns))
    changelog_follow, schema = _follow_of(table, args)
    converter = DebeziumConverter(table=table.location, keys=table.schema.primary_keys)
    sink = sys.stdout.buffer
    with ExitStack() as stack:
        if args.to_kafka is not None:
            output = stack.enter_context(KafkaOutput(args.to_kafka))
            _send_steps(
                changelog_follow,
                lambda batch: output.send(*converter.keys_and_values(batch)),
                output.flush,
            )
        elif args.format == _DEBEZIUM:
            _send_steps(
                changelog_follow, lambda batch: sink.write(_lines(converter, batch)), sink.flush
            )
        else:
            write = write_jsonl if args.format == "jsonl" else write_table
            if not args.follow and args.consumer is None:
                write(_rows(changelog_batches(changelog_follow), schema), schema, sink)
                return
            # Write a text table for each step, so that it appears at once.
            for step in changelog_follow.steps():
                write(_rows(changelog_follow.batches(step), schema), schema, sink)
                sink.flush()


def _send_steps(
    changelog_follow: ChangelogFollow,
    send: Callable[[ChangelogBatch], object],
    flush: Callable[[], object],
) -> None:
    """Pass on each step as a whole before the next one, which stores the progress, begins."""
    for step in changelog_follow.steps():
        for batch in changelog_follow.batches(step):
            send(batch)
        flush()


def _follow_of(
    table: FileStoreTable, args: argparse.Namespace
) -> tuple[ChangelogFollow, pa.Schema]:
    """Check the arguments, and return the follow and the Arrow schema of its output."""
    start = start_of(args.start or EARLIEST)
    if args.end is not None and args.end < 1:
        raise UsageError(f"--to {args.end} is below 1", fix="give 1 or more")
    if args.end is not None and start.snapshot_id is not None and start.snapshot_id > args.end:
        raise UsageError(f"--from {args.start} is after --to {args.end}", fix="give --from ≤ --to")
    if args.ignore_progress and args.consumer is None:
        raise UsageError("--ignore-progress is about a consumer", fix="add --consumer ID")
    has_progress = (
        args.consumer is not None
        and not args.ignore_progress
        and table.consumers.next_snapshot_id(args.consumer) is not None
    )
    if not has_progress:
        check_start(table, start, follows=args.follow)
    columns = columns_argument(args.columns)
    stream_read = StreamRead(
        table,
        None if columns is None else tuple(columns),
        None if args.where is None else row_filter(args.where, table.schema),
    )
    settings = FollowSettings(
        start=start,
        end=args.end,
        follows=args.follow,
        consumer_id=args.consumer,
        ignores_progress=args.ignore_progress,
    )
    kind, snapshot = pa.field("_row_kind", pa.string()), pa.field("_snapshot", pa.int64())
    schema = pa.schema([kind, snapshot, *list(stream_read.schema)[1:]])
    return ChangelogFollow(stream_read, settings), schema


def _check_keys(table: FileStoreTable, columns: list[str] | None) -> None:
    missing_keys = [name for name in table.schema.primary_keys if columns and name not in columns]
    if missing_keys:
        raise UsageError(
            f"--columns leaves out {', '.join(missing_keys)} of the primary key, which identifies "
            "the row of a message",
            fix="add them to --columns",
        )


def _rows(batches: Iterable[ChangelogBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows with `_row_kind` and `_snapshot` in front of the table's columns."""
    for batch in batches:
        kinds, *columns = batch.rows.columns
        ids = pa.repeat(pa.scalar(batch.snapshot_id, pa.int64()), batch.rows.num_rows)
        yield pa.RecordBatch.from_arrays([kinds, ids, *columns], schema=schema)


def _lines(converter: DebeziumConverter, batch: ChangelogBatch) -> bytes:
    _, values = converter.keys_and_values(batch)
    return ("\n".join(values.to_pylist()) + "\n").encode()


def start_of(text: str) -> StreamStart:
    """Return the start that a text names: ``N``, ``N-full``, a time, or a name.

    Raises:
        UsageError: the text is not one of these.
    """
    if text == EARLIEST:
        return stream_start("from-snapshot", snapshot_id=0)
    if text in _NAMED_STARTS:
        return stream_start(text)
    if match := re.fullmatch(r"([0-9]+)(-full)?", text):
        mode = "from-snapshot-full" if match[2] else "from-snapshot"
        return stream_start(mode, snapshot_id=int(match[1]))
    try:
        return stream_start("from-timestamp", timestamp_ms=ms_since_1970(text))
    except UsageError:
        raise UsageError(
            f"--from {text!r} is not a start",
            fix=f"give a snapshot such as 7, 7-full, {EARLIEST}, {', '.join(_NAMED_STARTS)}, or a "
            "time such as 2026-01-31T12:00:00",
        ) from None


def check_start(table: FileStoreTable, start: StreamStart, *, follows: bool) -> None:
    """Check that a snapshot that is requested by number exists.

    Raises:
        UsageError: the snapshot has expired or, without `follows`, does not exist yet.
    """
    snapshot_id = start.snapshot_id
    latest_id = table.snapshots.latest_id()
    if not snapshot_id or latest_id is None:
        return
    if snapshot_id > latest_id and not follows:
        raise UsageError(
            f"snapshot {snapshot_id} does not exist yet, the latest is {latest_id}",
            where=table.location,
            fix="give an earlier one, or wait for it with --follow",
        )
    followed_snapshot(table, snapshot_id)
