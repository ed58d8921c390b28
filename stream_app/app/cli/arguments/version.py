"""``--snapshot``, ``--tag``, ``--timestamp`` and ``--watermark``: which version of a table."""

from __future__ import annotations

import argparse

from stream_app.table.versions.time_travel import Timestamp, Version


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add the arguments; one of them may be given."""
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument(
        "--snapshot",
        type=int,
        metavar="N",
        help="the table as of this snapshot; default: the latest",
    )
    ways.add_argument("--tag", metavar="NAME", help="as of a tag")
    ways.add_argument(
        "--timestamp",
        type=timestamp_argument,
        metavar="TIME",
        help="as of a time: ISO 8601, local without a zone; or milliseconds since 1970",
    )
    ways.add_argument(
        "--watermark", type=int, metavar="MS", help="the first whose watermark is this or later"
    )


def version_of(args: argparse.Namespace) -> Version:
    """The version that the arguments name."""
    return Version(
        snapshot=args.snapshot, tag=args.tag, timestamp=args.timestamp, watermark=args.watermark
    )


def timestamp_argument(text: str) -> Timestamp:
    """A time as it stands on the command line: a text, or milliseconds."""
    return int(text) if text.lstrip("-").isdigit() else text
