"""Reads the parts of a table's page one by one, so that a damaged part hides no other."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TypeVar

from stream_app.app.inspect.bucket_trees import TreeRow
from stream_app.app.inspect.snapshot_files import live_files
from stream_app.app.inspect.table_listings import file_listing
from stream_app.app.text.listing import Listing, time_text
from stream_app.errors import StreamAppError
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.schema.schema_changes import schema_differences
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.quarantine.quarantine_folder import Quarantine, QuarantinedRecord
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.storage_errors import storage_error
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots, SnapshotExpiry

SHOWN_FILES_MAX = 20
_FILE_COLUMNS = ("partition", "bucket", "level", "file", "rows", "bytes", "schema", "created")
SHOWN_VERSIONS_MAX = 10
READ_RECORDS_MAX = 10_000
"""The number of records of a quarantine that a page reads each time; there may be a million."""
_EXAMPLES_MAX = 3
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProblem:
    """Parts of a page that cannot be read, and why."""

    parts: tuple[str, ...]
    error: StreamAppError


@dataclass(slots=True)
class PartReader:
    """A reader of a page's parts, which records those that cannot be read."""

    _errors: dict[str, tuple[StreamAppError, list[str]]] = field(init=False, default_factory=dict)

    def values(self, name: str, read: Callable[[], Sequence[_Read]]) -> Sequence[_Read]:
        """Return a part with several values; empty if it cannot be read."""
        return self.value(name, read) or ()

    def value(self, name: str, read: Callable[[], _Read | None]) -> _Read | None:
        """Return a part with one value, or None if it cannot be read."""
        try:
            return read()
        except StreamAppError as error:
            problem = error
        except OSError as error:
            problem = storage_error(error)
        self._errors.setdefault(str(problem), (problem, []))[1].append(name)
        return None

    def problems(self) -> list[PartProblem]:
        """Return each distinct error, with the parts that it hides."""
        return [
            PartProblem(parts=tuple(dict.fromkeys(parts)), error=error)
            for error, parts in self._errors.values()
        ]


def next_expiry(table: FileStoreTable) -> SnapshotExpiry:
    """Return the next expiry, as a plan; nothing is deleted.

    Raises:
        UsageError: the options of expiry contradict each other.
        CorruptFileError: a retained version cannot be read.
    """
    return ExpireSnapshots(table).plan(expire_config(table.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """One version of the schema, and its differences from the previous one; the first has none."""

    schema_id: int
    time: str | None
    changes: tuple[str, ...]


def schema_versions(table: FileStoreTable) -> list[SchemaVersion]:
    """Return the latest versions, newest first."""
    schema_ids = table.schemas.ids()[-SHOWN_VERSIONS_MAX - 1 :]
    schemas = [table.schemas.schema(schema_id) for schema_id in schema_ids]
    versions = []
    for previous_schema, schema in zip([None, *schemas], schemas, strict=False):
        if previous_schema is None and schema.schema_id > 0:
            continue  # the previous version is not shown
        changes = (
            () if previous_schema is None else tuple(schema_differences(previous_schema, schema))
        )
        version = SchemaVersion(
            schema_id=schema.schema_id, time=time_text(schema.time_ms), changes=changes
        )
        versions.append(version)
    return versions[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """One column of the latest schema; `key` names the keys to which it belongs."""

    column: str
    type: str
    key: str
    comment: str | None


def column_rows(schema: TableSchema) -> list[ColumnRow]:
    """Return the columns, in their order."""
    key_texts = {**dict.fromkeys(schema.primary_keys, "primary key")}
    for name in schema.partition_keys:
        key_texts[name] = f"{key_texts[name]}, partition" if name in key_texts else "partition"
    return [
        ColumnRow(
            column=column.name,
            type=str(column.data_type),
            key=key_texts.get(column.name, ""),
            comment=column.description,
        )
        for column in schema.fields
    ]


def trait_texts(schema: TableSchema) -> list[str]:
    """Return the kind of table in few words, the most important first."""
    options, column_count = schema.core_options, len(schema.fields)
    keys_text = ", ".join(schema.primary_keys)
    traits = [
        f"{column_count:,} column{'' if column_count == 1 else 's'}",
        f"primary key {keys_text}" if keys_text else "no primary key",
    ]
    if schema.partition_keys:
        traits.append(f"partitioned by {', '.join(schema.partition_keys)}")
    if keys_text:
        traits += [
            f"merge engine {options.merge_engine}",
            f"changelog {options.changelog_producer}",
        ]
    if options.merges_by_vectors:
        traits.append("deletion vectors")
    return [*traits, f"schema {schema.schema_id}"]


def largest_files(table: FileStoreTable, snapshot: Snapshot) -> Listing:
    """Return the largest files of a snapshot, the largest first."""
    entries = heapq.nlargest(
        SHOWN_FILES_MAX, live_files(table, snapshot), key=lambda entry: entry.file.file_size
    )
    return file_listing(table, entries, _FILE_COLUMNS)


def space_amplification(runs: Sequence[TreeRow]) -> float | None:
    """Return the bytes of all sorted runs per byte of the buckets' oldest runs, or None.

    Args:
        runs: the runs of `inspect.bucket_trees.sorted_run_rows`: a row for each sorted run, the
            newest first.
    """
    buckets = [
        list(bucket_runs)
        for _, bucket_runs in groupby(runs, key=lambda run: (run.partition, run.bucket))
    ]
    oldest_size = sum(bucket_runs[-1].bytes for bucket_runs in buckets)
    return sum(run.bytes for run in runs) / oldest_size if oldest_size else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedKind:
    """Records of one kind of reason that wait in the quarantine, with the newest as examples.

    Attributes:
        is_all: whether no other record of this kind can wait.
    """

    kind: str
    record_count: int
    is_all: bool
    examples: tuple[QuarantinedRecord, ...]


def quarantined_kinds(
    committed_users: Collection[str], open_quarantine: Callable[[], Quarantine | None]
) -> list[QuarantinedKind]:
    """Return the newest unresolved records by kind of reason, the most frequent first.

    Args:
        committed_users: the commit users that have a commit in the table.

    Raises:
        CorruptFileError: a file in the folder does not belong to a quarantine.
    """
    quarantine = open_quarantine()
    if quarantine is None:
        return []
    records = quarantine.iterate_unresolved(committed_users, is_newest_first=True)
    return group_records_by_kind(list(islice(records, READ_RECORDS_MAX)))


def group_records_by_kind(records: Sequence[QuarantinedRecord]) -> list[QuarantinedKind]:
    """Return records by kind of reason, the most frequent first.

    Args:
        records: the newest first; `READ_RECORDS_MAX` of them mean that there may be more.
    """
    counts = Counter[str]()
    examples = dict[str, list[QuarantinedRecord]]()
    for record in records:
        kind = record.kind
        counts[kind] += 1
        if counts[kind] <= _EXAMPLES_MAX:
            examples.setdefault(kind, []).append(record)
    is_all = len(records) < READ_RECORDS_MAX
    return [
        QuarantinedKind(
            kind=kind, record_count=record_count, is_all=is_all, examples=tuple(examples[kind])
        )
        for kind, record_count in counts.most_common()
    ]
