"""Keeps a version from expiring while it is read, by a tag with a time to live.

So whoever expires snapshots, also another engine, leaves the version's files alone. The tag goes
with the reader; one that dies leaves it to the table's upkeep, which deletes it when its time is
over. Needs the right to write, and is therefore asked for.

A tag is renewed by giving the version another one first: then whoever deletes or expires meanwhile
sees one of both, and a tag never comes to a version that is gone.

Source: Paimon `tag/TagTimeExpire.java` for the time to live.
"""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.model.options.option import parse_retention_ms
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.tags import create_tag, delete_tags, plan_tag_deletion
from stream_app.table.versions.time_travel import Version, at_version

_LOG = logging.getLogger(__name__)
TAG_PREFIX = "reading-"
"""No name of a period begins so."""
_TRIES = 5
"""Of finding a version that is still whole; the latest can expire only if others commit fast."""
FoundVersion = tuple[FileStoreTable, Snapshot | None]
"""The table with the columns of a version, and its snapshot."""
Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def retention_ms(text: str | None) -> int | None:
    """How long a tag lives that is not renewed; None: nothing is to be protected.

    Raises:
        UsageError: the text is no duration, or one that nobody means.
    """
    if text is None:
        return None
    try:
        return parse_retention_ms(text)
    except ValueError:
        raise UsageError(
            f"protect = {text!r} is no duration of a second or more",
            fix="give the longest pause between two batches, such as '1 h'",
        ) from None


@dataclass(slots=True)
class ReadProtection:
    """Holds a version of a table for one reader.

    Attributes:
        retained_ms: after which the tag may be deleted, unless it is renewed.
    """

    table: FileStoreTable
    snapshot: Snapshot
    retained_ms: int
    _name: str = field(init=False)
    _given_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._give()

    def renew(self) -> None:
        """The version is still being read; does nothing while the tag lives long enough.

        What goes wrong is told in the log: the reader goes on with what it has.
        """
        now = self.table.clock.steady_seconds()
        if now - self._given_at < self.retained_ms / 3000:
            return
        before = self._name
        try:
            self._give()
            self.table.tags.delete(before)
        except Exception as error:
            self._given_at = now
            self._tell("renewed", error)

    def end(self) -> None:
        """Nobody reads the version any more: the tag goes, and what only it held. Never raises."""
        try:
            if self.table.tags.tag(self._name) is not None:
                delete_tags(self.table, plan_tag_deletion(self.table, [self._name]))
        except Exception as error:
            self._tell("deleted", error)

    def _give(self) -> None:
        tag = Tag(
            name=f"{TAG_PREFIX}{uuid.uuid4()}",
            snapshot=self.snapshot,
            create_time_ms=local_wall_clock_ms(self.table.clock),
            time_retained_ms=self.retained_ms,
        )
        given = create_tag(self.table, tag)
        assert given, "nobody else gives this name"
        self._name, self._given_at = tag.name, self.table.clock.steady_seconds()

    def _tell(self, what: str, error: Exception) -> None:
        _LOG.warning(
            "the tag %s, which protects snapshot %d while it is read, could not be %s: %s; it "
            "goes when its time is over",
            self._name,
            self.snapshot.snapshot_id,
            what,
            error,
        )


def protected(
    find: Callable[[], FoundVersion], retained_ms: int, *, again: bool
) -> tuple[FileStoreTable, Snapshot | None, ReadProtection | None]:
    """A version, and what keeps it; None: there is no snapshot, so nothing to keep.

    Args:
        again: find another version when one has expired before it had its tag.

    Raises:
        UsageError: the version does not exist, or not any more.
        OSError: the file system does not let us write the tag.
    """
    for left in reversed(range(_TRIES)):
        table, snapshot = find()
        if snapshot is None:
            return table, None, None
        try:
            return table, snapshot, ReadProtection(table, snapshot, retained_ms)
        except UsageError:
            if not again or not left:
                raise
    raise AssertionError("the last try returns or raises")


def protected_rows(
    table: FileStoreTable,
    version: Version,
    retained_ms: int,
    rows: Callable[[FileStoreTable, Snapshot | None], Rows],
) -> Rows:
    """The rows of a version, which is kept until they are read.

    Args:
        rows: plans the read of a version.

    Raises:
        UsageError, OSError: as `protected`; and whatever `rows` raises.
    """
    store, found, protection = protected(
        lambda: at_version(table, version), retained_ms, again=version.is_latest
    )
    if protection is None:
        return rows(store, found)
    try:
        schema, batches = rows(store, found)
    except BaseException:
        protection.end()
        raise
    return schema, ProtectedBatches(batches, protection)


class ProtectedBatches(Iterator[pa.RecordBatch]):
    """Batches of a version that is kept while they are read.

    The protection ends with the last batch, with an error, or when nobody has this any more: Arrow
    tells an iterator that its reader is dropped, not that it is closed.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], protection: ReadProtection) -> None:
        self._batches = batches
        self._protection = protection
        self._end = weakref.finalize(self, _end, batches, protection)

    def __next__(self) -> pa.RecordBatch:
        """The next batch."""
        try:
            self._protection.renew()
            return next(self._batches)
        except BaseException:
            self._end()
            raise


def _end(batches: Iterator[pa.RecordBatch], protection: ReadProtection) -> None:
    if isinstance(batches, Generator):
        batches.close()
    protection.end()
