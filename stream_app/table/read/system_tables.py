"""Makes Paimon's system tables as Arrow tables, with its names, columns, types and order.

This module has the tables about versions and options, and those that show the table's own rows;
`system_files` has those about files. Times are local wall-clock times, as in Java.

Source: Paimon `table/system/*.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter, itemgetter

import orjson
import pyarrow as pa

from stream_app.clock import wall_clock_ms
from stream_app.errors import UsageError
from stream_app.filestore.versions.branch_folders import branch_root
from stream_app.filestore.versions.statistics_files import StatisticsFiles
from stream_app.format.json_object import JsonObject
from stream_app.format.schema_json import field_objects
from stream_app.model.near_names import unknown_name
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read import system_files
from stream_app.table.read.selection import ROW_KIND_NAME
from stream_app.table.read.system_rows import ColumnGetter, SystemTable, parsed_schema

_SNAPSHOTS = SystemTable(
    schema=parsed_schema(
        "snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, commit_user STRING NOT NULL, "
        "commit_identifier BIGINT NOT NULL, commit_kind STRING NOT NULL, "
        "commit_time TIMESTAMP(3) NOT NULL, base_manifest_list STRING NOT NULL, "
        "delta_manifest_list STRING NOT NULL, changelog_manifest_list STRING, "
        "total_record_count BIGINT, delta_record_count BIGINT, changelog_record_count BIGINT, "
        "watermark BIGINT, next_row_id BIGINT, operation STRING, writer_version STRING"
    ),
    read_rows=lambda table, _: list(table.snapshots.backwards())[::-1],
    make_getters=lambda table: {
        "commit_kind": "commit_kind.value",
        "commit_time": _wall_clock_getter("time_ms"),
        **_manifest_count_getters(table),
    },
)


def _manifest_count_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    """Return the getters of a snapshot: the numbers of files that it adds and deletes."""
    read_list = lru_cache(maxsize=1)(table.manifests.read_list)

    def file_count(name: str | None, attribute: str) -> int:
        return sum(getattr(meta, attribute) for meta in read_list(name)) if name else 0

    return {
        "files_added": lambda snapshot: file_count(snapshot.delta_manifest_list, "num_added_files"),
        "files_deleted": lambda snapshot: file_count(
            snapshot.delta_manifest_list, "num_deleted_files"
        ),
        "changelog_files": lambda snapshot: file_count(
            snapshot.changelog_manifest_list, "num_added_files"
        ),
    }


_SCHEMAS = SystemTable(
    schema=parsed_schema(
        "schema_id BIGINT NOT NULL, fields STRING NOT NULL, partition_keys STRING NOT NULL, "
        "primary_keys STRING NOT NULL, options STRING NOT NULL, comment STRING, "
        "update_time TIMESTAMP(3) NOT NULL"
    ),
    read_rows=lambda table, _: map(table.schemas.schema, table.schemas.ids()),
    make_getters=lambda _: {
        "fields": lambda schema: _json(field_objects(schema)),
        "partition_keys": lambda schema: _json(schema.partition_keys),
        "primary_keys": lambda schema: _json(schema.primary_keys),
        "options": lambda schema: _json(dict(schema.options)),
        "update_time": _wall_clock_getter("time_ms"),
    },
)
_OPTIONS = SystemTable(
    schema=parsed_schema("key STRING NOT NULL, value STRING NOT NULL"),
    read_rows=lambda table, _: sorted(table.schema.options.items()),
    make_getters=lambda _: {"key": itemgetter(0), "value": itemgetter(1)},
)
_TAGS = SystemTable(
    schema=parsed_schema(
        "tag_name STRING NOT NULL, snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, "
        "commit_time TIMESTAMP(3) NOT NULL, record_count BIGINT, create_time TIMESTAMP(3), "
        "time_retained STRING"
    ),
    read_rows=lambda table, _: table.tags.tags(),
    make_getters=lambda _: {
        "tag_name": "name",
        "snapshot_id": "snapshot.snapshot_id",
        "schema_id": "snapshot.schema_id",
        "commit_time": _wall_clock_getter("snapshot.time_ms"),
        "record_count": "snapshot.total_record_count",
        "create_time": "create_time_ms",
        "time_retained": lambda tag: duration_text(tag.time_retained_ms),
    },
)


def _branches(table: FileStoreTable, _: Snapshot | None) -> list[tuple[str, int]]:
    prefix = branch_root("", "").rpartition("/")[2]
    return sorted(
        (status.name.removeprefix(prefix), wall_clock_ms(status.modification_time_ms))
        for status in table.file_io.list_status(f"{table.location}/branch")
        if status.is_folder and status.name.startswith(prefix)
    )


_BRANCHES = SystemTable(
    schema=parsed_schema("branch_name STRING NOT NULL, create_time TIMESTAMP(3) NOT NULL"),
    read_rows=_branches,
    make_getters=lambda _: {"branch_name": itemgetter(0), "create_time": itemgetter(1)},
)


def _progress_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    """Return the getters of a consumer: its position relative to the snapshots."""
    earliest_id = cache(lambda: table.snapshots.earliest_id() or 1)
    latest_id = cache(lambda: table.snapshots.latest_id() or 0)
    return {
        "next_snapshot_id": "next_snapshot_id",
        "behind": lambda consumer: max(latest_id() + 1 - consumer.next_snapshot_id, 0),
        "has_expired": lambda consumer: consumer.next_snapshot_id < earliest_id(),
    }


_CONSUMERS = SystemTable(
    schema=parsed_schema("consumer_id STRING NOT NULL, next_snapshot_id BIGINT NOT NULL"),
    read_rows=lambda table, _: table.consumers.consumers(),
    make_getters=_progress_getters,
)


def _aggregation_getters(table: FileStoreTable) -> dict[str, ColumnGetter]:
    """Return the getters of a column: its options ``fields.NAME.…`` and their values."""
    options: dict[str, dict[str, str]] = {}
    for key, value in table.schema.options.items():
        words = key.split(".")
        if len(words) > 2 and words[0] == "fields":
            options.setdefault(words[1], {})[key] = value

    def texts_in_brackets(texts: Iterable[str]) -> str:
        return f"[{', '.join(texts)}]"

    return {
        "field_name": "name",
        "field_type": lambda field: str(field.data_type),
        "function": lambda field: texts_in_brackets(options.get(field.name, {}).values()),
        "function_options": lambda field: texts_in_brackets(options.get(field.name, {})),
        "comment": "description",
    }


_AGGREGATION_FIELDS = SystemTable(
    schema=parsed_schema(
        "field_name STRING NOT NULL, field_type STRING NOT NULL, function STRING, "
        "function_options STRING, comment STRING"
    ),
    read_rows=lambda table, _: table.schema.fields,
    make_getters=_aggregation_getters,
)


def _statistics(table: FileStoreTable, snapshot: Snapshot | None) -> list[JsonObject]:
    if snapshot is None or snapshot.statistics is None:
        return []
    return [StatisticsFiles(table.file_io, table.paths).read(snapshot.statistics)]


_STATISTICS = SystemTable(
    schema=parsed_schema(
        "snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, mergedRecordCount BIGINT, "
        "mergedRecordSize BIGINT, colstat STRING"
    ),
    read_rows=_statistics,
    make_getters=lambda _: {
        "snapshot_id": lambda row: row.integer("snapshotId"),
        "schema_id": lambda row: row.integer("schemaId"),
        "mergedRecordCount": lambda row: row.optional_integer("mergedRecordCount"),
        "mergedRecordSize": lambda row: row.optional_integer("mergedRecordSize"),
        "colstat": lambda row: _json(row.raw("colStats")),
    },
)


def _wall_clock_getter(path: str) -> ColumnGetter:
    """Return the getter that shows a time of the metadata on the local wall clock."""
    time_ms = attrgetter(path)
    return lambda row: wall_clock_ms(time_ms(row))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def duration_text(duration_ms: int | None) -> str | None:
    """Format a duration as Java's Duration does: ``PT24H0.5S``; None stays None."""
    if duration_ms is None:
        return None
    seconds, fraction = divmod(duration_ms, 1000)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds % 60 or fraction or not text:
        decimals = f".{fraction:03}".rstrip("0") if fraction else ""
        text += f"{seconds % 60}{decimals}S"
    return f"PT{text}"


SYSTEM_TABLES: dict[str, SystemTable] = {
    "snapshots": _SNAPSHOTS,
    "schemas": _SCHEMAS,
    "options": _OPTIONS,
    "files": system_files.FILES,
    "file_key_ranges": system_files.FILE_KEY_RANGES,
    "manifests": system_files.MANIFESTS,
    "partitions": system_files.PARTITIONS,
    "buckets": system_files.BUCKETS,
    "table_indexes": system_files.TABLE_INDEXES,
    "tags": _TAGS,
    "branches": _BRANCHES,
    "consumers": _CONSUMERS,
    "aggregation_fields": _AGGREGATION_FIELDS,
    "statistics": _STATISTICS,
}
"""System tables by name; those of files and statistics show one snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRowForm:
    """The form in which a system table shows rows.

    Attributes:
        shows_row_kinds: whether to prepend the column ``rowkind``, and to show deletes that no
            compaction has removed.
        shows_lists: whether each value is a list of one; an update in Paimon's streams has two.
        reads_top_level: whether to show only rows that a full compaction has merged, so that the
            read need not merge.
    """

    shows_row_kinds: bool = False
    shows_lists: bool = False
    reads_top_level: bool = False

    def level_min(self, table: FileStoreTable) -> int | None:
        """Return the lowest level to read; None: the default of a batch read."""
        if not self.reads_top_level or not table.kind_traits.merges_by_key:
            return None
        return table.options.num_levels - 1

    def schema(self, row_schema: pa.Schema) -> pa.Schema:
        """Return the system table's Arrow schema, given that of the rows."""
        return pa.schema([self._shown_field(field) for field in row_schema])

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows in the system table's form."""
        if not self.shows_lists:
            return rows
        offsets = pa.array(range(rows.num_rows + 1), pa.int32())
        arrays = [
            column if field.name == ROW_KIND_NAME else pa.ListArray.from_arrays(offsets, column)
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        schema = self.schema(rows.schema)
        arrays = [column.cast(field.type) for column, field in zip(arrays, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _shown_field(self, field: pa.Field) -> pa.Field:
        if not self.shows_lists or field.name == ROW_KIND_NAME:
            return field
        return pa.field(field.name, pa.list_(field.type))


ROWS = SystemRowForm()
ROW_FORMS = {
    "audit_log": SystemRowForm(shows_row_kinds=True),
    "binlog": SystemRowForm(shows_row_kinds=True, shows_lists=True),
    "ro": SystemRowForm(reads_top_level=True),
}
"""System tables that show rows, by name."""


def check_system_table(name: str) -> None:
    """Check that stream_app has a system table of this name.

    Raises:
        UsageError: the name is unknown, or stream_app does not read this table.
    """
    names = (*SYSTEM_TABLES, *ROW_FORMS)
    if name == "row_tracking":
        raise UsageError(
            "stream_app does not read the system table 'row_tracking'",
            fix="read it with Paimon's own readers",
        )
    if name not in names:
        raise UsageError(
            unknown_name("system table", name, names), fix=f"name one of {', '.join(names)}"
        )
