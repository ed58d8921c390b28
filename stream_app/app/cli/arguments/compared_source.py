"""Arguments that name the other side of a comparison by checksums: ``--source``, and others."""

from __future__ import annotations

import argparse


def add_compared_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check --source`."""
    parser.add_argument(
        "--source",
        metavar="WHAT",
        nargs="?",
        const="",
        help="compare the rows by checksums alone: with a database (jdbc:postgresql://… or "
        "jdbc:mysql://…), with another table, or with tag:NAME of the same table; with --conf: all "
        "tables of the job with a database, by default that of source.snapshot-from",
    )
    help_of_record = "if nothing differs, publish that in a snapshot, for status, pages and metrics"
    parser.add_argument("--record", action="store_true", help=help_of_record)
    help_of_name = "the table's name in the database of --source; default: its name here"
    parser.add_argument("--source-table", metavar="NAME", help=help_of_name)
    parser.add_argument(
        "--wait",
        default="30s",
        metavar="TIME",
        help="how long the table may lag behind the database of --source; default: 30s",
    )
