"""``stream-app quarantine``: shows, replays and removes records that a job could not store."""

from __future__ import annotations

import argparse
import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import orjson

from stream_app.app.cli.arguments.configuration import add_configuration, load_config_argument
from stream_app.app.cli.arguments.named_table import check_table_name, names_of_job
from stream_app.app.cli.arguments.parsed_texts import timestamp_argument
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.ops.chosen_records import ChosenRecords
from stream_app.app.ops.replay.job_replay import job_record_replays
from stream_app.app.ops.replay.replay_lines import replay_lines
from stream_app.app.text.listing import DRY_RUN, NOTHING, count_text, time_text
from stream_app.app.text.text_table import Column, text_lines
from stream_app.cdc.bad_reasons import REASON_KINDS
from stream_app.errors import UsageError
from stream_app.quarantine.quarantine_folder import (
    Quarantine,
    QuarantinedRecord,
    RecordFilter,
    offset_range,
    open_quarantine,
)
from stream_app.table.versions.time_travel import ms_since_1970

DESCRIPTION = "Look at the records of a quarantine, replay them, or drop them."
EPILOG = """\
list    how many records wait, by table, kind of reason, topic and partition
show    the records themselves, with reason, key and value
replay  decodes records again, by the configuration and the table of today, and writes the rows
        of those that are good now; once, and never over a newer change of the same row.
        The topics must still have the messages after the records. Stop the job, or expect to
        try again: a replay gives way to the job
drop    removes records for good

examples:
  stream-app quarantine list --conf conf/orders.toml
  stream-app quarantine show --conf conf/shop-database.toml --table items
  stream-app quarantine show ./quarantine/orders --reason value --offset 1042
  stream-app quarantine replay --conf conf/orders.toml --reason missing-column --dry-run
  stream-app quarantine replay --conf conf/orders.toml --all
  stream-app quarantine drop --conf conf/orders.toml --topic shop.old --until 2026-01-31"""
_COLUMNS = (
    Column("reason"),
    Column("topic"),
    Column("partition", aligns_right=True),
    Column("records", aligns_right=True),
    Column("offsets"),
    Column("first"),
    Column("last"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("action", choices=tuple(_ACTIONS), metavar="list|show|replay|drop")
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="the folder of the quarantine, instead of --conf",
    )
    add_configuration(parser, "the job's configuration")
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="in a job of a whole database: choose records of this table; without it, list "
        "counts records of all tables, and the others choose records of no table",
    )
    parser.add_argument(
        "--reason",
        action="append",
        choices=REASON_KINDS,
        default=[],
        metavar="KIND",
        help=f"choose records with this kind of reason; may be repeated: {', '.join(REASON_KINDS)}",
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC", help="choose records of this topic"
    )
    parser.add_argument(
        "--partition", type=int, metavar="N", help="choose records of this Kafka partition"
    )
    parser.add_argument(
        "--offset",
        metavar="N[..M]",
        help="choose records of this offset, or from the first to the last",
    )
    parser.add_argument(
        "--since", metavar="TIME", help="choose records whose own time is this or later"
    )
    parser.add_argument(
        "--until", metavar="TIME", help="choose records whose own time is before this"
    )
    parser.add_argument("--all", action="store_true", help="replay or drop all records that wait")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what replay or drop would do, and change nothing",
    )
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="the format of the output; default: text",
    )


def run(args: argparse.Namespace) -> int:
    """Run the subcommand.

    Raises:
        UsageError: wrong arguments, or a record that cannot be replayed safely.
        CorruptFileError: a file in the folder does not belong to a quarantine.
    """
    if (args.folder is None) == (args.conf is None):
        raise UsageError(
            "name one quarantine", fix="give its folder, or --conf with the job's configuration"
        )
    config = load_config_argument(args.conf, args.set)
    job_tables = None if config is None else config.job_tables
    folder = args.folder if config is None else config.stream.quarantine
    chosen_records = ChosenRecords(
        job_quarantine=_quarantine(args, job_tables, folder),
        job_tables=job_tables,
        name=args.table,
        record_filter=_record_filter(args),
    )
    if (
        args.action in ("replay", "drop")
        and chosen_records.record_filter.is_everything
        and not args.all
    ):
        raise UsageError(
            f"no records are chosen for {args.action}",
            fix="choose them (--reason, --topic, --partition, --offset, --since, --until), or give "
            "--all",
        )
    for line in _ACTIONS[args.action](args, chosen_records):
        print(line, flush=True)
    return 0


def _record_filter(args: argparse.Namespace) -> RecordFilter:
    return RecordFilter(
        reasons=tuple(args.reason),
        topics=tuple(args.topic),
        partition=args.partition,
        offsets=None if args.offset is None else offset_range(args.offset),
        since_ms=None if args.since is None else ms_since_1970(timestamp_argument(args.since)),
        until_ms=None if args.until is None else ms_since_1970(timestamp_argument(args.until)),
    )


def _quarantine(
    args: argparse.Namespace, job_tables: JobTables | None, folder: str | None
) -> Quarantine:
    """Return the quarantine in the folder, or without one that of the job.

    Raises:
        UsageError: the quarantine or the named table does not exist.
    """
    quarantine = (
        _quarantine_of_folder(args.folder)
        if job_tables is None
        else _quarantine_of_job(args, job_tables, folder)
    )
    if args.table is not None:
        names = {*quarantine.tables(), *(() if job_tables is None else names_of_job(job_tables))}
        check_table_name(args.table, names, str(args.conf or args.folder))
    return quarantine


def _quarantine_of_folder(folder: str) -> Quarantine:
    quarantine = open_quarantine(folder, {})
    if not quarantine.exists:
        raise UsageError(
            "there is no such folder",
            where=folder,
            fix="give the folder of a quarantine, or --conf with the job's configuration",
        )
    return quarantine


def _quarantine_of_job(
    args: argparse.Namespace, job_tables: JobTables, folder: str | None
) -> Quarantine:
    if folder is None:
        raise UsageError(
            "the job has no quarantine", where=str(args.conf), fix="set stream.quarantine"
        )
    if args.table is not None and not job_tables.separates_tables:
        raise UsageError("the job has one table", where=str(args.conf), fix="leave --table out")
    return open_quarantine(folder, job_tables.file_system)


def _lines_of_other_tables(chosen_records: ChosenRecords) -> Iterator[str]:
    """Yield a line with the other tables that have unresolved records; nothing without such."""
    counts = {
        name: len(records)
        for name, records in chosen_records.unresolved_by_table().items()
        if records
    }
    if counts:
        tables_text = ", ".join(f"{name} ({count})" for name, count in counts.items())
        yield f"such records wait in tables; choose one with --table: {tables_text}"


def _list(args: argparse.Namespace, chosen_records: ChosenRecords) -> Iterator[str]:
    """Yield the lines that summarise the unresolved records, by table if there are several."""
    tables = chosen_records.unresolved_by_table()
    summaries = _summaries(chosen_records.unresolved_records())
    columns: tuple[Column, ...] = _COLUMNS
    if tables:
        columns = (Column("table"), *_COLUMNS)
        summaries = [{"table": None, **summary} for summary in summaries]
        for name, unresolved_records in tables.items():
            summaries += [{"table": name, **summary} for summary in _summaries(unresolved_records)]
    if args.format == "jsonl":
        yield from (orjson.dumps(summary).decode() for summary in summaries)
    elif not summaries:
        yield f"no record waits in {chosen_records.quarantine.location}"
    else:
        rows = [
            [value if value is None else str(value) for value in summary.values()]
            for summary in summaries
        ]
        yield from text_lines(columns, rows)


def _summaries(records: Sequence[QuarantinedRecord]) -> list[dict[str, object]]:
    groups: dict[tuple[str, str, int], list[QuarantinedRecord]] = defaultdict(list)
    for record in records:
        groups[record.kind, record.topic, record.partition].append(record)
    return [_summary(*group, members) for group, members in sorted(groups.items())]


def _summary(
    kind: str, topic: str, partition_number: int, records: Sequence[QuarantinedRecord]
) -> dict[str, object]:
    offsets = [record.offset for record in records]
    times = [record.timestamp for record in records if record.timestamp is not None]
    return {
        "reason": kind,
        "topic": topic,
        "partition": partition_number,
        "records": len(records),
        "offsets": f"{min(offsets)}..{max(offsets)}",
        "first": time_text(min(times, default=None)),
        "last": time_text(max(times, default=None)),
    }


def _show(args: argparse.Namespace, chosen_records: ChosenRecords) -> Iterator[str]:
    unresolved_records = chosen_records.unresolved_records()
    if not unresolved_records and args.format == "text":
        yield from _lines_of_other_tables(chosen_records)
    for record in unresolved_records:
        if args.format == "jsonl":
            yield orjson.dumps(_as_json(record)).decode()
            continue
        record_time_text = time_text(record.timestamp)
        place_text = f"{record.place}, {record_time_text}" if record_time_text else record.place
        yield f"{place_text} ({record.file})"
        yield f"  {record.kind}: {record.reason}"
        yield f"  key:   {_text_of_bytes(record.key)}"
        yield f"  value: {_text_of_bytes(record.value)}"


def _as_json(record: QuarantinedRecord) -> Mapping[str, object]:
    document: dict[str, object] = {
        name: getattr(record, name)
        for name in ("file", "topic", "partition", "offset", "timestamp", "kind", "reason")
    }
    for name in ("key", "value"):
        data: bytes | None = getattr(record, name)
        try:
            document[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            document[f"{name}_base64"] = base64.b64encode(data or b"").decode()
    return document


def _text_of_bytes(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")


def _drop(args: argparse.Namespace, chosen_records: ChosenRecords) -> Iterator[str]:
    """Drop the unresolved records, and yield the lines to print."""
    quarantine, unresolved_records = chosen_records.quarantine, chosen_records.unresolved_records()
    if not unresolved_records:
        yield NOTHING
        yield from _lines_of_other_tables(chosen_records)
        return
    yield f"drop {count_text(len(unresolved_records), 'record')} of {quarantine.location}"
    if args.dry_run:
        yield DRY_RUN
        return
    chosen_records.drop(unresolved_records)
    yield f"dropped {count_text(len(unresolved_records), 'record')}"


def _replay(args: argparse.Namespace, chosen_records: ChosenRecords) -> Iterator[str]:
    job_tables = chosen_records.job_tables
    if job_tables is None:
        raise UsageError(
            "a replay needs the job's configuration", fix="give --conf instead of the folder"
        )
    replays_by_table = job_record_replays(job_tables, chosen_records.job_quarantine, args.table)
    for name, replay in replays_by_table.items():
        if args.table is None and job_tables.separates_tables:
            yield f"{name}:"
        outcome = replay.run(chosen_records.record_filter, dry_run=args.dry_run)
        yield from replay_lines(outcome, dry_run=args.dry_run)
    if not replays_by_table:
        yield NOTHING
        yield from _lines_of_other_tables(chosen_records)


_ACTIONS = {"list": _list, "show": _show, "replay": _replay, "drop": _drop}
