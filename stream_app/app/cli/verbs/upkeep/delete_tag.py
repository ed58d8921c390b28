"""``stream-app delete-tag``: deletes tags, with the files that only these tags kept."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, size_text, time_text
from stream_app.errors import CorruptFileError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tags import TagDeletion, delete_tags, plan_tag_deletion
from stream_app.table.upkeep.upkeep_refusals import check_expirable

DESCRIPTION = "Delete tags, and the files that only they need."
EPILOG = """\
examples:
  stream-app delete-tag warehouse/shop.db/orders before-migration --dry-run
  stream-app delete-tag warehouse/shop.db/orders 2026-01-30 2026-01-31"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument("names", metavar="NAME", nargs="+", help="the name of a tag to delete")


def _plan_lines(deletion: TagDeletion) -> Iterator[str]:
    for name in deletion.unreadable_names:
        yield f"tag {name!r}, which cannot be read, is deleted: its files become orphans"
    for tag in deletion.tags:
        snapshot_id, snapshot_time_text = tag.snapshot.snapshot_id, time_text(tag.snapshot.time_ms)
        yield f"tag {tag.name!r} of snapshot {snapshot_id} of {snapshot_time_text} is deleted"
    files = deletion.files
    yield f"files that nothing else needs: {files.count}, {size_text(files.byte_count)}"


def run(args: argparse.Namespace) -> int:
    """Delete the tags.

    Raises:
        UsageError: the tag does not exist.
        UnsupportedTableError: stream_app would not find the table's files.
        CorruptFileError: another version cannot be read.
    """
    table = open_table_argument(args.table)
    check_expirable(table)

    deletion = _plan(table, args.names)
    files, count = deletion.files, len(deletion.tags) + len(deletion.unreadable_names)

    def result_lines() -> Iterator[str]:
        delete_tags(table, deletion)
        yield (
            f"deleted {count_text(count, 'tag')}: {count_text(files.count, 'file')}, "
            f"{size_text(files.byte_count)}"
        )

    return run_upkeep(args, _plan_lines(deletion), result_lines, is_empty=not count)


def _plan(table: FileStoreTable, names: list[str]) -> TagDeletion:
    try:
        return plan_tag_deletion(table, names)
    except CorruptFileError as error:
        raise CorruptFileError(
            "no tag is deleted, because another version cannot be read, and its files cannot be "
            f"determined: {error.problem}",
            where=error.where,
            fix=error.fix,
        ) from error
