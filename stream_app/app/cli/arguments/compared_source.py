"""Arguments that name the other side of a comparison by checksums, such as ``--source``."""

from __future__ import annotations

import argparse

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.load.loaded_tables import LOAD_KEY, database_of
from stream_app.errors import UsageError
from stream_app.network.jdbc import SERVERS, JdbcUrl, parse_jdbc_url


def add_compared_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check --source`."""
    parser.add_argument(
        "--source",
        metavar="SOURCE",
        nargs="?",
        const="",
        help="compare checksums of the rows with those of a database (jdbc:postgresql://… or "
        "jdbc:mysql://…), of another table, or of tag:NAME of the same table; with "
        "--conf: compare all tables of the job with a database, by default that of "
        "source.snapshot-from",
    )
    help_of_record = (
        "if nothing differs, publish this result in a snapshot, for status, pages and metrics"
    )
    parser.add_argument("--record", action="store_true", help=help_of_record)
    add_database_table(parser)


def add_database_table(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that need a database as ``--source``."""
    help_of_name = "the table's name in the database of --source; default: the table's own name"
    parser.add_argument("--source-table", metavar="NAME", help=help_of_name)
    parser.add_argument(
        "--wait",
        default="30s",
        metavar="DURATION",
        help="how long the table may lag behind the database of --source; default: 30s",
    )


def named_database(args: argparse.Namespace, job_tables: JobTables) -> JdbcUrl:
    """Return the database of ``--source``; without a value, the configuration's database.

    Raises:
        UsageError: no database is named, or it is of an unsupported kind.
    """
    if args.source:
        return parse_jdbc_url(args.source, "--source", SERVERS)
    if job_tables.source.snapshot_from is None:
        raise UsageError(
            f"--source has no value, and {args.conf} no {LOAD_KEY}",
            fix="name the database: --source jdbc:postgresql://127.0.0.1/shop?user=me",
        )
    return database_of(job_tables.source)
