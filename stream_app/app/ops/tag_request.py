"""Creates a tag on request, unless the tag could not protect its version."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.errors import UsageError
from stream_app.model.tag import Tag
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tags import create_tag
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_publishes_safely


def check_taggable(table: FileStoreTable) -> None:
    """Refuse a table with versions outside of its folder.

    Raises:
        UnsupportedTableError: the table has such versions.
        StorageError: two processes that create the same tag could both succeed.
    """
    check_expirable(table)
    check_publishes_safely(table)


def tag_on_request(table: FileStoreTable, tag: Tag) -> Iterator[str]:
    """Create a tag, and yield a line that reports it.

    Raises:
        UsageError: another process has created the tag meanwhile, or the snapshot has expired.
    """
    if not create_tag(table, tag):
        raise UsageError(
            f"tag {tag.name!r} was created by another process meanwhile",
            where=table.location,
            fix="give another name",
        )
    yield f"created tag {tag.name!r}"
