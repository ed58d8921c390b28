"""Protects a version from expiry while it is read, by a tag with a time to live.

So each expiry, even another engine's, keeps the version's files. The reader deletes the tag at the
end. If the reader dies, the table's upkeep deletes the tag. Both need write access.

Source: Paimon `tag/TagTimeExpire.java` for the time to live.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.model.options.option import parse_retention_ms
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tags import create_tag, delete_tags, plan_tag_deletion

_LOG = logging.getLogger(__name__)
TAG_PREFIX = "reading-"
"""The prefix of the tags' names; no name of a period begins so."""
_ATTEMPTS_MAX = 5
"""Attempts to tag a complete version; the latest expires only if other writers commit fast."""
TableVersion = tuple[FileStoreTable, Snapshot | None]
"""The table with the columns of a version, and its snapshot; None if the table is empty."""
SchemaAndRows = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def retention_ms(text: str | None) -> int | None:
    """Return the tag's time to live; None if no protection is requested.

    Raises:
        UsageError: the text is not a duration of a second or more.
    """
    if text is None:
        return None
    try:
        return parse_retention_ms(text)
    except ValueError:
        raise UsageError(
            f"protect = {text!r} is not a duration of a second or more",
            fix="give a time that is longer than the read, such as '1 h'",
        ) from None


def tagged_version(
    find: Callable[[], TableVersion], retained_ms: int, *, may_retry: bool
) -> tuple[TableVersion, str | None]:
    """Return a version and the name of its new tag with a time to live; None without a snapshot.

    Args:
        may_retry: whether to find another version if one expires before it gets its tag.

    Raises:
        UsageError: the version does not exist or has expired.
        OSError: the file system refuses to write the tag.
    """
    for attempts_left in reversed(range(_ATTEMPTS_MAX)):
        table, snapshot = find()
        if snapshot is None:
            return (table, None), None
        name = f"{TAG_PREFIX}{uuid.uuid4()}"
        now_ms = local_wall_clock_ms(table.clock)
        tag = Tag(name=name, snapshot=snapshot, create_time_ms=now_ms, time_retained_ms=retained_ms)
        try:
            create_tag(table, tag)
        except UsageError:
            if not may_retry or not attempts_left:
                raise
        else:
            return (table, snapshot), name
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def protected_version(
    find: Callable[[], TableVersion], retained_ms: int, *, may_retry: bool
) -> Iterator[TableVersion]:
    """Protect a version by a tag. At the end, delete the tag and the files that only it needs."""
    (table, snapshot), name = tagged_version(find, retained_ms, may_retry=may_retry)
    try:
        yield table, snapshot
    finally:
        try:
            if name is not None and table.tags.tag(name) is not None:
                delete_tags(table, plan_tag_deletion(table, [name]))
        except Exception as error:
            text = "the tag %s of a read could not be deleted: %s; upkeep deletes it later"
            _LOG.warning(text, name, error)


def read_protected_rows(
    find: Callable[[], TableVersion],
    retained_ms: int,
    read: Callable[..., SchemaAndRows],
    *,
    may_retry: bool,
) -> SchemaAndRows:
    """Read a version that is protected until the reader is exhausted, fails, or is dropped.

    Args:
        read: plans the read of the version that `find` returns.

    Raises:
        UsageError, OSError: as `tagged_version`; and whatever `read` raises.
    """

    def schema_then_rows() -> Generator[Any]:
        with protected_version(find, retained_ms, may_retry=may_retry) as version:
            schema, rows = read(*version)
            yield schema
            yield from rows

    batches = schema_then_rows()
    return next(batches), batches  # a started generator ends the protection when it is dropped
