"""Reads and filters the records in a quarantine's files, and writes marks of resolved ones.

`quarantine.quarantine_writer` writes the files. A mark is a file ``mark-….json`` beside them that
identifies records by offset and content. So it also applies to a record that a repeated epoch
writes again.

A replay writes its mark before it commits, and the mark counts once the table has the commit. The
commit user is unique to the mark, so the table's record of epochs shows the commit. That record
expires, so `write_snapshots` writes the commit's snapshot into the mark.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

from stream_app.cdc.bad_reasons import reason_kind
from stream_app.errors import CorruptFileError, SparkOnlyError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_registry import STORE_LOCATIONS, can_open, file_io_of
from stream_app.quarantine.quarantine_line import (
    fields_of_line,
    is_quarantine_file,
    is_replaced_file,
)

_MARK = "mark-"
COUNTED_MAX = 1_000_000
Identity = tuple[str, int, int, str]
"""A record's topic, partition, offset and digest."""


class RecordOutcome(enum.StrEnum):
    """The outcome of a quarantined record, as marks store it."""

    REPLAYED = "replayed"
    OVERTAKEN = "overtaken"
    """The table has a newer change of the record's row."""
    DROPPED = "dropped"
    BACKFILLED = "backfilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecord:
    """A record as it arrived, and the reason for its quarantine.

    Attributes:
        file: the name of its file in the folder.
        timestamp: its time in ms since 1970, in UTC, or None without one.
    """

    file: str
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    reason: str
    key: bytes | None
    value: bytes | None

    @property
    def kind(self) -> str:
        """The kind of the reason, one of `bad_reasons.REASON_KINDS`."""
        return reason_kind(self.reason)

    @property
    def is_replaced(self) -> bool:
        """Whether a later run has rewritten its epoch's file, perhaps without this record."""
        return is_replaced_file(self.file)

    @property
    def place(self) -> str:
        """The record's topic, partition and offset as text."""
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"

    @property
    def identity(self) -> Identity:
        """The record's identity, which is equal for all of its copies."""
        return identity_of(self.topic, self.partition, self.offset, self.key, self.value)


def identity_of(
    topic: str, partition_number: int, offset: int, key: bytes | None, value: bytes | None
) -> Identity:
    """Return the identity of a message, which its quarantined copies have too."""
    digest = hashlib.sha256()
    for content in (key, value):
        digest.update(b"-" if content is None else b"+%d:" % len(content) + content)
    return topic, partition_number, offset, digest.hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMark:
    """The outcome of some records.

    Attributes:
        name: the name of the mark, with which a replay's commit user ends.
        outcomes: the outcome of each record.
        user: the commit user of a replay or backfill; empty without a commit.
        snapshot: the commit's snapshot, or None as long as it is unknown.
    """

    name: str
    records: tuple[Identity, ...]
    outcomes: tuple[RecordOutcome, ...]
    user: str = ""
    snapshot: int | None = None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The folder of a quarantine, on a file system that needs no JVM."""

    location: str
    file_io: FileIO

    @property
    def exists(self) -> bool:
        """Whether the folder exists. A job creates it with the first bad record."""
        return self.file_io.exists(self.location)

    def tables(self) -> list[str]:
        """Return the names of tables that have a subfolder."""
        return sorted(
            status.name for status in self.file_io.list_status(self.location) if status.is_folder
        )

    def of_table(self, name: str) -> Quarantine:
        """Return the quarantine in a table's subfolder."""
        return Quarantine(f"{self.location}/{name}", self.file_io)

    def records(self, *, is_newest_first: bool = False) -> Iterator[QuarantinedRecord]:
        """Yield all records, file by file in the order of epochs.

        Raises:
            CorruptFileError: a line is not a record.
        """
        for name in sorted(self._names(), key=_epoch_order, reverse=is_newest_first):
            if is_quarantine_file(name):
                yield from self._records_of(name, is_newest_first=is_newest_first)

    def unresolved_records(self, committed_users: Collection[str]) -> list[QuarantinedRecord]:
        """Return the records without an outcome, each once.

        Args:
            committed_users: the commit users that have a commit in the table.
        """
        resolved_identities = self._resolved_identities(committed_users)
        unresolved_records: dict[Identity, QuarantinedRecord] = {}
        for record in self.records():
            copy = unresolved_records.get(record.identity)
            is_resolved = record.identity in resolved_identities
            if not is_resolved and (copy is None or copy.is_replaced):
                unresolved_records[record.identity] = record
        return list(unresolved_records.values())

    def iterate_unresolved(
        self, committed_users: Collection[str] = (), *, is_newest_first: bool = False
    ) -> Iterator[QuarantinedRecord]:
        """Yield the unresolved records, and keep only a hash of each in memory.

        Of several copies of a record it yields the first.

        Args:
            committed_users: the commit users that have a commit in the table. Without them, the
                records of a replay count as unresolved until `write_snapshots` has found its
                commit.
        """
        resolved_identities = self._resolved_identities(committed_users)
        yielded_hashes = set[int]()
        for record in self.records(is_newest_first=is_newest_first):
            identity = record.identity
            identity_hash = hash(identity)
            if identity not in resolved_identities and identity_hash not in yielded_hashes:
                yielded_hashes.add(identity_hash)
                yield record

    def unresolved_count(self, count_max: int = COUNTED_MAX) -> int:
        """Return the number of unresolved records, counted up to `count_max`."""
        return sum(1 for _ in islice(self.iterate_unresolved(), count_max))

    def marks(self) -> list[RecordMark]:
        """Read all marks."""
        return [
            self._read_mark(name)
            for name in sorted(self._names())
            if name.startswith(_MARK) and name.endswith(".json")
        ]

    def write_mark(self, mark: RecordMark) -> None:
        """Write a mark, and replace an older one of the same name."""
        document = asdict(mark)
        path = f"{self.location}/{_MARK}{mark.name}.json"
        self.file_io.overwrite(path, json.dumps(document).encode())

    def write_snapshots(self, snapshots: Mapping[str, int]) -> None:
        """Write the snapshots of their commits into the marks of replays.

        Args:
            snapshots: commit user → a snapshot that contains its commit.
        """
        for mark in self.marks():
            if mark.snapshot is None and mark.user in snapshots:
                self.write_mark(replace(mark, snapshot=snapshots[mark.user]))

    def remove(self, records: Sequence[QuarantinedRecord]) -> None:
        """Remove records from their files, and delete files without remaining records."""
        removed_identities = {record.identity for record in records}
        for name in sorted(self._names()):
            if not is_quarantine_file(name):
                continue
            path = f"{self.location}/{name}"
            lines = self.file_io.read_bytes(path).splitlines(keepends=True)
            remaining_lines = [
                line
                for line in lines
                if line.strip() and self._record(name, line).identity not in removed_identities
            ]
            if not remaining_lines:
                self.file_io.delete(path)
            elif len(remaining_lines) < len(lines):
                self.file_io.overwrite(path, b"".join(remaining_lines))

    def _resolved_identities(self, committed_users: Collection[str]) -> set[Identity]:
        return {
            identity
            for mark in self.marks()
            if not mark.user or mark.snapshot is not None or mark.user in committed_users
            for identity in mark.records
        }

    def _names(self) -> list[str]:
        try:
            return self.file_io.list_names(self.location)
        except FileNotFoundError:
            return []

    def _records_of(
        self, name: str, *, is_newest_first: bool = False
    ) -> Iterator[QuarantinedRecord]:
        lines = self.file_io.read_bytes(f"{self.location}/{name}").splitlines()
        for line in reversed(lines) if is_newest_first else lines:
            if line.strip():
                yield self._record(name, line)

    def _record(self, name: str, line: bytes) -> QuarantinedRecord:
        try:
            return QuarantinedRecord(file=name, **fields_of_line(line))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"a line is not a record of a quarantine ({error!r}): {line[:80]!r}",
                where=f"{self.location}/{name}",
                fix="move the file elsewhere; only the job writes files of this folder",
            ) from None

    def _read_mark(self, name: str) -> RecordMark:
        """Read the mark in a file."""
        path = f"{self.location}/{name}"
        try:
            document = json.loads(self.file_io.read_bytes(path))
            records = tuple(
                (str(topic), int(partition_number), int(offset), str(digest))
                for topic, partition_number, offset, digest in document["records"]
            )
            return RecordMark(
                **{
                    **document,
                    "records": records,
                    "outcomes": tuple(map(RecordOutcome, document["outcomes"])),
                }
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(
                f"a mark of the quarantine cannot be read ({error!r})",
                where=path,
                fix="move the file elsewhere, and find out which of its records are in the table",
            ) from None


def open_quarantine(location: str, options: Mapping[str, str]) -> Quarantine:
    """Open the quarantine in a folder.

    Args:
        options: the options of the section ``[file-system]``.

    Raises:
        SparkOnlyError: the folder is on a file system that only Spark can access.
        UsageError: the location or an option of its file system is wrong.
    """
    if not can_open(location):
        raise SparkOnlyError(
            "only Spark reaches the quarantine's file system",
            where=location,
            fix=f"copy the folder to another file system, and name it there: {STORE_LOCATIONS}",
        )
    return Quarantine(*file_io_of(location, options))


def reused_offsets(records: Iterable[QuarantinedRecord]) -> list[str]:
    """Return offsets at which records have different contents, as after recreating a topic."""
    identities: dict[tuple[str, int, int], Identity] = {}
    reused_places = []
    for record in records:
        place = record.identity[:3]
        if identities.setdefault(place, record.identity) != record.identity:
            reused_places.append(record.place)
    return reused_places


def _epoch_order(name: str) -> tuple[int, str]:
    """Return the sort key of a file in the order of epochs."""
    epoch_text = name.removeprefix("epoch-").partition(".")[0]
    return (int(epoch_text) if epoch_text.isdigit() else -1, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Conditions on records. None and empty values match every record.

    Attributes:
        reasons: kinds of reasons.
        offsets: the first and the last offset.
        since_ms, until_ms: bounds of the records' own times, which a record without a time does not
            meet.
    """

    reasons: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partition: int | None = None
    offsets: tuple[int, int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether no condition is given."""
        return self == RecordFilter()

    def select(self, records: Iterable[QuarantinedRecord]) -> list[QuarantinedRecord]:
        """Return the records that meet all conditions, in their order."""
        return [record for record in records if self._matches(record)]

    def _matches(self, record: QuarantinedRecord) -> bool:
        first_offset, last_offset = self.offsets or (record.offset, record.offset)
        return (
            (not self.reasons or record.kind in self.reasons)
            and (not self.topics or record.topic in self.topics)
            and self.partition in (None, record.partition)
            and first_offset <= record.offset <= last_offset
            and self._in_time(record.timestamp)
        )

    def _in_time(self, time_ms: int | None) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        if time_ms is None:
            return False
        has_begun = self.since_ms is None or time_ms >= self.since_ms
        return has_begun and (self.until_ms is None or time_ms < self.until_ms)


def offset_range(text: str) -> tuple[int, int]:
    """Parse ``17`` or ``17..42``.

    Raises:
        UsageError: the text has neither form.
    """
    match = re.fullmatch(r"(\d{1,18})(?:\.\.(\d{1,18}))?", text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise UsageError(
            f"--offset {text} is not a range of offsets",
            fix="write 17, or 17..42 with the last one",
        )
    return int(match[1]), int(match[2] or match[1])
