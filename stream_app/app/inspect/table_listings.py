"""Makes the listings of `inspect` from system tables, with short column names and ISO times.

`table.read.system_tables` provides the rows, and getters for which Paimon has no column. The
options of a table are those set in its schema, and all others with their defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, make_dataclass
from operator import attrgetter
from typing import Any

from stream_app.app.config.secrets import HIDDEN, is_secret
from stream_app.app.inspect.snapshot_files import EVERYTHING, BucketFilter, key_text, live_files
from stream_app.app.text.listing import Listing, size_text, time_text
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.core_options import OPTIONS
from stream_app.model.options.option import DURATION, SIZE, Option
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.system_rows import ColumnGetter
from stream_app.table.read.system_tables import SYSTEM_TABLES

PAIMON_LISTINGS = (
    "branches", "table_indexes", "file_key_ranges", "aggregation_fields", "statistics"
)  # fmt: skip
"""System tables that keep Paimon's columns."""


def listing(
    name: str,
    table: FileStoreTable,
    snapshot: Snapshot | None = None,
    bucket_filter: BucketFilter = EVERYTHING,
) -> Listing:
    """Return the rows of a system table as `inspect` shows them."""
    system_table = SYSTEM_TABLES[name]
    if name in PAIMON_LISTINGS:
        arrow_table = system_table(table, snapshot)
        row_type = make_dataclass(name, arrow_table.schema.names, frozen=True)
        return Listing(row_type, [row_type(**row) for row in arrow_table.to_pylist()])
    if name == "files":
        return file_listing(table, live_files(table, snapshot, bucket_filter))
    return _listing(name, table, system_table.read_rows(table, snapshot), _COLUMNS[name])


def file_listing(
    table: FileStoreTable, entries: Iterable[ManifestEntry], names: Collection[str] = ()
) -> Listing:
    """Return a listing of data files.

    Args:
        names: the names of the shown columns; empty for all.
    """
    getters = _file_getters(table)
    columns = {name: getter for name, getter in getters.items() if not names or name in names}
    return _listing("files", table, entries, columns)


def _listing(
    name: str, table: FileStoreTable, rows: Iterable[Any], getters: Mapping[str, ColumnGetter]
) -> Listing:
    values = SYSTEM_TABLES[name].values(table, rows, list(getters.values()))
    row_type = make_dataclass(name, getters, frozen=True)
    return Listing(row_type, [row_type(*row) for row in values])


def _time_getter(path: str, zone: str = "Z") -> ColumnGetter:
    """Return milliseconds since 1970 as text. A writer's local time has an empty zone."""
    time_ms = attrgetter(path)
    return lambda row: time_text(time_ms(row), zone=zone)


def columns_text(schema: TableSchema) -> str:
    """Return columns as text: ``id BIGINT NOT NULL, customer STRING``."""
    return ", ".join(f"{field.name} {field.data_type}" for field in schema.fields)


def _epoch(snapshot: Snapshot) -> int | None:
    """Return the epoch of a streaming commit, or None for a batch commit."""
    identifier = snapshot.commit_identifier
    return None if identifier == BATCH_COMMIT_IDENTIFIER else identifier


def _options_text(schema: TableSchema) -> str:
    return ", ".join(
        f"{key}={_shown_option(key, value)}" for key, value in sorted(schema.options.items())
    )


def _range_text(minimum: int | None, maximum: int | None) -> str | None:
    if minimum is None or maximum is None:
        return None
    return str(minimum) if minimum == maximum else f"{minimum}-{maximum}"


def _file_getters(table: FileStoreTable) -> Mapping[str, ColumnGetter]:
    """Return column → getter of a data file. `deletes` counts -U and -D; None if not recorded."""
    key_type = table.schema.key_type
    return {
        "partition": "partition_path",
        "bucket": "bucket",
        "level": "level",
        "file": "file.file_name",
        "rows": "record_count",
        "deletes": "deleteRowCount",
        "bytes": "file_size_in_bytes",
        "min_key": lambda entry: key_text(entry.file.min_key, key_type),
        "max_key": lambda entry: key_text(entry.file.max_key, key_type),
        "min_sequence": "min_sequence_number",
        "max_sequence": "max_sequence_number",
        "schema": "schema_id",
        "source": "file_source",
        "created": _time_getter("file.creation_time_ms", zone=""),
    }


_SIZES: Mapping[str, ColumnGetter] = {
    "files": "file_count",
    "rows": "row_count",
    "bytes": "byte_count",
    "updated": _time_getter("update_time_ms", zone=""),
}
"""Columns of sizes; rows are physical rows, including deletes and older versions."""
_COLUMNS: Mapping[str, Mapping[str, ColumnGetter]] = {
    # Records are physical rows.
    "snapshots": {
        "snapshot": "snapshot_id",
        "kind": "commit_kind",
        "time": _time_getter("time_ms"),
        "user": "commit_user",
        "identifier": _epoch,
        "schema": "schema_id",
        "delta_records": "delta_record_count",
        "total_records": "total_record_count",
        "changelog_records": "changelog_record_count",
        "files_added": "files_added",
        "files_deleted": "files_deleted",
        "changelog_files": "changelog_files",
        "writer": "writer_version",
    },
    "schemas": {
        "schema": "schema_id",
        "time": _time_getter("time_ms"),
        "primary_keys": lambda schema: ", ".join(schema.primary_keys),
        "partition_keys": lambda schema: ", ".join(schema.partition_keys),
        "columns": columns_text,
        "options": _options_text,
        "comment": "comment",
    },
    "partitions": {"partition": "partition_path", "buckets": "bucket_count", **_SIZES},
    "buckets": {"partition": "partition_path", "bucket": "bucket", **_SIZES},
    # A tag without `retained_ms` does not expire.
    "tags": {
        "tag": "name",
        "snapshot": "snapshot_id",
        "schema": "schema_id",
        "time": _time_getter("snapshot.time_ms"),
        "records": "record_count",
        "created": _time_getter("create_time_ms", zone=""),
        "retained_ms": "time_retained_ms",
    },
    # `behind` counts the snapshots that the consumer has not read yet.
    "consumers": {
        "consumer": "consumer_id",
        "next_snapshot": "next_snapshot_id",
        "behind": "behind",
        "has_expired": "has_expired",
        "updated": _time_getter("modification_time_ms"),
    },
    # Buckets and levels are ranges, or None if the writer did not record them.
    "manifests": {
        "part": "list_kind",
        "manifest": "file_name",
        "bytes": "file_size",
        "added": "num_added_files",
        "deleted": "num_deleted_files",
        "schema": "schema_id",
        "buckets": lambda manifest: _range_text(manifest.meta.min_bucket, manifest.meta.max_bucket),
        "levels": lambda manifest: _range_text(manifest.meta.min_level, manifest.meta.max_level),
    },
}
LISTINGS = ("snapshots", "schemas", "files", *list(_COLUMNS)[2:], *PAIMON_LISTINGS)
"""The names of listings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One option. `value` is None for an unset option without a default."""

    option: str
    value: str | None
    is_set: bool
    meaning: str | None


def option_rows(table: FileStoreTable) -> list[OptionRow]:
    """Return the options, set ones first.

    An option that stream_app does not read has no meaning.
    """
    options = table.schema.options
    rows = [_set_option(key, value) for key, value in sorted(options.items())]
    unset_options = [option for key, option in sorted(OPTIONS.items()) if key not in options]
    return rows + [_default_option(option) for option in unset_options]


def _set_option(key: str, value: str) -> OptionRow:
    option = OPTIONS.get(key)
    return OptionRow(
        option=key,
        value=_shown_option(key, value),
        is_set=True,
        meaning=None if option is None else option.meaning,
    )


def _shown_option(key: str, value: str) -> str:
    """Return an option's value, or stars for a secret."""
    return HIDDEN if is_secret(key) else value


def _default_option(option: Option[Any]) -> OptionRow:
    value = option.default
    text = None if value in (None, "") else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int) and option.kind is SIZE:
        text = size_text(value)
    elif isinstance(value, int) and option.kind is DURATION:
        text = f"{value} ms"
    return OptionRow(option=option.key, value=text, is_set=False, meaning=option.meaning)
