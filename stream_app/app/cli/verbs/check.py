"""``stream-app check``: checks whether a table is intact."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from stream_app.app.cli.arguments.compared_source import add_compared_source, named_database
from stream_app.app.cli.arguments.compared_topics import check_is_kafka, compared_topics
from stream_app.app.cli.arguments.configuration import add_configuration, load_config_argument
from stream_app.app.cli.arguments.named_table import open_named_job_table
from stream_app.app.cli.arguments.parsed_texts import duration_argument
from stream_app.app.cli.arguments.table import add_table, open_table_argument
from stream_app.app.cli.output.finding_output import (
    detail_lines,
    exit_code,
    print_findings,
    print_warnings,
    result_lines,
    summary_of,
)
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.job_checks import (
    ComparedTableCheck,
    DatabaseComparison,
    compared_table_checks,
    finish_comparison,
    refusal_finding,
)
from stream_app.app.ops.recorded_tables import (
    loaded_tables,
    paths_of,
    recorded_splitter,
    refused_sources,
    source_filter_of,
    state_of_job,
    warnings_of,
)
from stream_app.app.ops.source_comparison.database_side import (
    SummedDatabase,
    SummedSource,
    summed_database,
)
from stream_app.app.ops.source_comparison.source_table_finder import SourceTableFinder
from stream_app.app.ops.source_comparison.sum_sides import (
    JDBC,
    SumSides,
    database_sides,
    table_sides,
)
from stream_app.app.ops.source_comparison.topic_comparison import Comparison
from stream_app.app.text.progress import ProgressLine
from stream_app.catalog.identifier import name_in_path
from stream_app.errors import UsageError
from stream_app.model.finding import FindingKind
from stream_app.model.source.origin import Origin
from stream_app.network.jdbc import SERVERS, JdbcUrl, parse_jdbc_url
from stream_app.process.local_disk import scratch_folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.upkeep_refusals import check_versions_known
from stream_app.table.versions.read_refusals import check_readable

DESCRIPTION = "Check a table's metadata against its files, and both against the format."
EPILOG = """\
checks of every snapshot, tag and changelog of the table and of its branches:
  snapshots    consecutive numbers, hints, record counts, epochs that were written twice
  consumers    whether the next snapshot exists or is still to come
  manifests    readable; lists and counts agree with them; merged ones have the same entries; each
               deletion has its file
  levels       files of a level above 0 do not overlap, and are in the right bucket
  files        existence and size; then, row by row: counts, key order and range, sequence numbers,
               bucket and partition of each row, statistics, deletion vectors
  waiting-rows rows that readers, or followers of the changelog, get only when their compaction is
               committed; a job that runs compacts them
  iceberg      its readers, by the catalog that the table's options name, find the latest snapshot
  changes      they lead to the table's rows: the changelog, or without one the flushed rows,
               replayed on top of the earliest version; without a key: compactions keep the number
               of rows
  source       on request: the topics, read again up to the table's newest epoch, give its rows;
               what cannot be compared (bad records, columns, deleted offsets) is a finding

It may run beside the table's jobs, ignores versions that expire meanwhile, and changes nothing.

examples:
  stream-app check warehouse/shop.db/orders
  stream-app check warehouse/shop.db/orders --quick && echo sound
  stream-app check warehouse/shop.db/orders --format jsonl
  stream-app check warehouse/shop.db/orders --conf conf/orders.toml
  stream-app check --conf conf/shop-database.toml
  stream-app check warehouse/shop.db/orders --source-kafka 127.0.0.1:9092/shop.public.orders
  stream-app check warehouse/shop.db/orders --source jdbc:postgresql://127.0.0.1/shop?user=me
  stream-app check warehouse/shop.db/orders --source tag:yesterday
  stream-app check --conf conf/shop-database.toml --source jdbc:postgresql://127.0.0.1/shop?user=me

exit codes: 0 no finding; 1 findings; 3 the only findings are what was not compared, rows that wait
for a compaction, and what Iceberg's readers lack"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table(parser, "without it, all tables of --conf")
    parser.add_argument(
        "--quick", action="store_true", help="check only metadata, and open no data file"
    )
    parser.add_argument(
        "--source-kafka",
        metavar="BOOTSTRAP/TOPIC",
        help="read this topic again, and compare its rows with the table's; with --conf: another "
        "address of the job's topics",
    )
    add_configuration(
        parser,
        "the configuration of the table's job: read its topics again, decode them as the job does, "
        "and compare their rows with the table's",
    )
    add_compared_source(parser)
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="the format of the output; default: text",
    )


def run(args: argparse.Namespace) -> int:
    """Print each finding as it arrives, then the extent of the check; return the exit code.

    Raises:
        UsageError: no table is named, or arguments contradict each other.
    """
    progress = ProgressLine.of_terminal()
    if args.source is not None:
        return _check_source(args, progress)
    config = load_config_argument(args.conf, args.set)
    job_tables = None if config is None else config.job_tables
    if args.table is not None:
        return _check_table(args, job_tables, progress)
    if job_tables is None:
        raise UsageError("no table is named", fix="give its folder, or --conf for all of a job")
    return _check_job(args, job_tables, progress)


def _check_table(
    args: argparse.Namespace, job_tables: JobTables | None, progress: ProgressLine
) -> int:
    """Check the named table, with its topics if there are some; return the exit code."""
    if job_tables is None:
        table = open_table_argument(args.table)
    else:
        table = open_named_job_table(args.table, job_tables, str(args.conf))
    check_versions_known(replace(table, branch=""))  # a branch's own versions are checked
    source_config, table_config = compared_topics(args, table, job_tables)
    if source_config is None:
        return _print_check(args, ComparedTableCheck(path=table.location, table=table), progress)
    with scratch_folder("check") as folder:
        comparison = Comparison(folder, progress, loaded_tables(job_tables))
        compared_table = comparison.add(
            table, source_config, table_config, source_filter_of(job_tables)
        )
        comparison.read(recorded_splitter(job_tables, table))
        table_check = ComparedTableCheck(
            path=table.location, table=table, compared_table=compared_table
        )
        code = _print_check(args, table_check, progress)
    if job_tables is not None:
        print_warnings(args, warnings_of(job_tables), table.label)
    return code


def _print_check(
    args: argparse.Namespace, table_check: ComparedTableCheck, progress: ProgressLine
) -> int:
    """Print the findings and the extent of one table's check; return the exit code."""
    findings = table_check.findings(is_quick=args.quick, progress=progress)
    kinds = print_findings(findings, table_check.path, args, progress)
    if args.format == "text":
        for line in result_lines(table_check.report, len(kinds)):
            print(line)
        for line in detail_lines(table_check.report, is_quick=args.quick):
            print(line)
    return exit_code(kinds)


def _check_job(args: argparse.Namespace, job_tables: JobTables, progress: ProgressLine) -> int:
    """Check each table of a job, with its topics; return the exit code."""
    refused_reasons = refused_sources(job_tables)
    check_is_kafka(args, job_tables.source)

    def topics_of(table: FileStoreTable) -> tuple[SourceConfig, TableConfig]:
        source_config, table_config = compared_topics(args, table, job_tables)
        assert source_config is not None, "the configuration names it"
        return source_config, table_config

    kinds_by_table: dict[str, set[FindingKind]] = {}
    details: list[str] = []
    with scratch_folder("check") as folder:
        comparison = Comparison(folder, progress, loaded_tables(job_tables))
        paths = paths_of(job_tables, needs_one=not refused_reasons)
        for table_check in compared_table_checks(job_tables, paths, comparison, topics_of):
            path = table_check.path
            findings = table_check.findings(is_quick=args.quick, progress=progress)
            kinds = print_findings(findings, path, args, progress, heading=path)
            kinds_by_table[name_in_path(path)] = set(kinds)
            if table_check.table is not None:
                detail_text = "; ".join(detail_lines(table_check.report, is_quick=args.quick))
                details.append(f"{path}: {detail_text}")
    kinds_by_table |= _print_refused(args, refused_reasons, progress)
    if args.format == "text":
        for line in (summary_of(kinds_by_table), *details):
            print(line)
    print_warnings(args, warnings_of(job_tables))
    return exit_code(set().union(*kinds_by_table.values()))


def _check_source(args: argparse.Namespace, progress: ProgressLine) -> int:
    """Compare one table or a job's tables with the source; return the exit code."""
    config = load_config_argument(args.conf, args.set)
    job_tables = None if config is None else config.job_tables
    if args.table is None and job_tables is None:
        raise UsageError(
            "--source needs a table to compare",
            fix="name the table, or its job's configuration for all of them (--conf)",
        )
    if args.source_kafka or args.quick:
        raise UsageError(
            "--source compares rows by checksums alone",
            fix="leave out --source-kafka and --quick",
        )
    wait_s = duration_argument("--wait", args.wait) / 1000
    if job_tables is not None:
        with summed_database(_database_to_compare(args, job_tables)) as database:
            return exit_code(_compare_job(args, job_tables, database, wait_s, progress))
    table = open_table_argument(args.table)
    check_readable(table, merges_rows=True)
    if not args.source.startswith(JDBC):
        sides = table_sides(table, args.source, open_table_argument)
        return exit_code(_compare(args, table, sides, progress))
    summed_source = SummedSource(relations=[args.source_table or table.name])
    with summed_database(parse_jdbc_url(args.source, "--source", SERVERS)) as database:
        sides = database_sides(table, database, summed_source, wait_s)
        return exit_code(_compare(args, table, sides, progress))


def _database_to_compare(args: argparse.Namespace, job_tables: JobTables) -> JdbcUrl:
    """Return the database that the command line names, or else that of the configuration."""
    if args.source and not args.source.startswith(JDBC):
        raise UsageError(
            f"with --conf the source must be a database, and --source {args.source} is not one",
            fix="name a database (jdbc:…), or leave --conf out and name the table's folder",
        )
    if args.source_table is not None and args.table is None:
        raise UsageError(
            "--source-table names one table, and all are compared", fix="name the table"
        )
    return named_database(args, job_tables)


def _compare(
    args: argparse.Namespace, table: FileStoreTable, sides: SumSides, progress: ProgressLine
) -> list[FindingKind]:
    """Compare a table with its source, print the outcome, and record it on request."""
    kinds = print_findings(sides.compare(), table.location, args, progress)
    equal_text = finish_comparison(table, sides, records_proof=args.record)
    if equal_text and args.format == "text":
        print(equal_text)
    return kinds


def _compare_job(
    args: argparse.Namespace,
    job_tables: JobTables,
    database: SummedDatabase,
    wait_s: float,
    progress: ProgressLine,
) -> set[FindingKind]:
    """Compare the tables of a job with its database, or only the named table."""
    finder = SourceTableFinder(
        job_tables=job_tables, state=state_of_job(job_tables), database=database
    )
    if args.table is not None:
        table = open_named_job_table(args.table, job_tables, str(args.conf))
        own_source = finder.own_source_of(table, args.source_table)
        check_readable(table, merges_rows=True)
        sides = database_sides(table, database, own_source, wait_s)
        return set(_compare(args, table, sides, progress))
    kinds_by_table: dict[str, set[FindingKind]] = {}
    foreign_names: list[str] = []
    refused_reasons = refused_sources(job_tables)
    for path in paths_of(job_tables, needs_one=not refused_reasons):
        name = name_in_path(path)
        comparison = DatabaseComparison(
            job_tables=job_tables, path=path, finder=finder, database=database, wait_s=wait_s
        )
        findings = comparison.findings(records_proof=args.record)
        kinds = print_findings(findings, path, args, progress, heading=path)
        if comparison.is_foreign:
            foreign_names.append(name)
            continue
        kinds_by_table[name] = set(kinds)
        if comparison.equal_text and args.format == "text":
            print(f"{path}: {comparison.equal_text}")
    kinds_by_table |= _print_refused(args, refused_reasons, progress)
    missing_kinds = print_findings(
        finder.missing_tables(), "", args, progress, heading=str(database.url)
    )
    if args.format == "text":
        print(summary_of(kinds_by_table))
        if foreign_names:
            print(f"their rows come from another database: {', '.join(foreign_names)}")
    print_warnings(args, warnings_of(job_tables))
    return set(missing_kinds).union(*kinds_by_table.values())


def _print_refused(
    args: argparse.Namespace, refused_reasons: Mapping[Origin, str], progress: ProgressLine
) -> dict[str, set[FindingKind]]:
    """Print the source tables that are not stored; return the kinds of findings by their names."""
    kinds_by_table: dict[str, set[FindingKind]] = {}
    for origin, reason in refused_reasons.items():
        heading = f"table {origin} of the source"
        kinds = print_findings(
            [refusal_finding(origin, reason)], "", args, progress, heading=heading
        )
        kinds_by_table[str(origin)] = set(kinds)
    return kinds_by_table
