"""Creates a tag on request, unless it could not protect its version, and reports it."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.errors import UsageError
from stream_app.model.tag import Tag
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tags import create_tag
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_publishes_safely


def check_taggable(table: FileStoreTable) -> None:
    """Refuse tables with versions outside their folder.

    Raises:
        UnsupportedTableError: there are such versions.
        StorageError: two makers of the same tag could both win.
    """
    check_expirable(table)
    check_publishes_safely(table)


def tag_on_request(table: FileStoreTable, tag: Tag) -> Iterator[str]:
    """Create a tag; return a line that reports it.

    Raises:
        UsageError: the name was taken meanwhile, or the snapshot has expired.
    """
    if not create_tag(table, tag):
        raise UsageError(
            f"tag {tag.name!r} was created by another process meanwhile",
            where=table.location,
            fix="give another name",
        )
    yield f"created tag {tag.name!r}"
