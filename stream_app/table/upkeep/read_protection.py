"""Protects a version from expiry while it is read, by a tag with a time to live.

So each expiry, even another engine's, keeps the version's files. The reader deletes the tag at the
end. If the reader dies, the table's upkeep deletes it. Both need write access.

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
"""No name of a period begins so."""
_TRIES = 5
"""The tries to find a version that is still whole; the latest expires only if others commit
fast."""
FoundVersion = tuple[FileStoreTable, Snapshot | None]
"""The table with the columns of a version, and its snapshot; None: the table is empty."""
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
    find: Callable[[], FoundVersion], retained_ms: int, *, retries: bool
) -> tuple[FoundVersion, str | None]:
    """Return a version and the name of its new tag with a time to live; None without a snapshot.

    Args:
        retries: whether to find another version if one expires before it gets its tag.

    Raises:
        UsageError: the version does not exist or has expired.
        OSError: the file system refuses to write the tag.
    """
    for tries_left in reversed(range(_TRIES)):
        table, snapshot = find()
        if snapshot is None:
            return (table, None), None
        name, now_ms = f"{TAG_PREFIX}{uuid.uuid4()}", local_wall_clock_ms(table.clock)
        tag = Tag(name=name, snapshot=snapshot, create_time_ms=now_ms, time_retained_ms=retained_ms)
        try:
            create_tag(table, tag)
        except UsageError:
            if not retries or not tries_left:
                raise
        else:
            return (table, snapshot), name
    raise AssertionError("the last try returns or raises")


@contextmanager
def protected_version(
    find: Callable[[], FoundVersion], retained_ms: int, *, retries: bool
) -> Iterator[FoundVersion]:
    """Protect a version by a tag. At the end, delete the tag and the files that only it needs."""
    (table, snapshot), name = tagged_version(find, retained_ms, retries=retries)
    try:
        yield table, snapshot
    finally:
        try:
            if name is not None and table.tags.tag(name) is not None:
                delete_tags(table, plan_tag_deletion(table, [name]))
        except Exception as error:
            text = "the tag %s of a read could not be deleted: %s; upkeep deletes it later"
            _LOG.warning(text, name, error)


def protected_rows(
    find: Callable[[], FoundVersion],
    retained_ms: int,
    rows: Callable[..., SchemaAndRows],
    *,
    retries: bool,
) -> SchemaAndRows:
    """Read a version that is protected until the reader is exhausted, fails, or is dropped.

    Args:
        rows: plans the read of the version that `find` returns.

    Raises:
        UsageError, OSError: as `tagged_version`; and whatever `rows` raises.
    """

    def reading() -> Generator[Any]:
        with protected_version(find, retained_ms, retries=retries) as version:
            schema, batches = rows(*version)
            yield schema
            yield from batches

    running = reading()
    return next(running), running  # a started generator ends the protection when it is dropped
