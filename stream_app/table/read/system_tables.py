"""Paimon's system tables as Arrow tables, with its names, columns, types and order.

Here are those of versions and options; `system_files` has those of files, and `row_tables` those
that show the table's own rows. Times are those of the local wall clock, as Java shows them.

Source: Paimon `table/system/*.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pyarrow as pa

from stream_app.clock import wall_clock_ms
from stream_app.errors import UsageError
from stream_app.filestore.versions.branches import branch_root
from stream_app.format.json_object import JsonObject
from stream_app.format.schema_json import field_objects
from stream_app.model.options.core_options import unknown_key
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read import system_files
from stream_app.table.read.row_tables import ROW_TABLES
from stream_app.table.read.system_rows import Row, columns, table_of

_SNAPSHOTS = columns(
    "snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, commit_user STRING NOT NULL, "
    "commit_identifier BIGINT NOT NULL, commit_kind STRING NOT NULL, "
    "commit_time TIMESTAMP(3) NOT NULL, base_manifest_list STRING NOT NULL, "
    "delta_manifest_list STRING NOT NULL, changelog_manifest_list STRING, "
    "total_record_count BIGINT, delta_record_count BIGINT, changelog_record_count BIGINT, "
    "watermark BIGINT, next_row_id BIGINT"
)
_SCHEMAS = columns(
    "schema_id BIGINT NOT NULL, fields STRING NOT NULL, partition_keys STRING NOT NULL, "
    "primary_keys STRING NOT NULL, options STRING NOT NULL, comment STRING, "
    "update_time TIMESTAMP(3) NOT NULL"
)
_OPTIONS = columns("key STRING NOT NULL, value STRING NOT NULL")
_TAGS = columns(
    "tag_name STRING NOT NULL, snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, "
    "commit_time TIMESTAMP(3) NOT NULL, record_count BIGINT, create_time TIMESTAMP(3), "
    "time_retained STRING"
)
_BRANCHES = columns("branch_name STRING NOT NULL, create_time TIMESTAMP(3) NOT NULL")
_CONSUMERS = columns("consumer_id STRING NOT NULL, next_snapshot_id BIGINT NOT NULL")
_AGGREGATION_FIELDS = columns(
    "field_name STRING NOT NULL, field_type STRING NOT NULL, function STRING, "
    "function_options STRING, comment STRING"
)
_STATISTICS = columns(
    "snapshot_id BIGINT NOT NULL, schema_id BIGINT NOT NULL, mergedRecordCount BIGINT, "
    "mergedRecordSize BIGINT, colstat STRING"
)


def _snapshots(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    found = list(table.snapshots.backwards())[::-1]
    return table_of(
        _SNAPSHOTS,
        (
            (
                one.snapshot_id, one.schema_id, one.commit_user, one.commit_identifier,
                one.commit_kind.value, wall_clock_ms(one.time_millis), one.base_manifest_list,
                one.delta_manifest_list, one.changelog_manifest_list, one.total_record_count,
                one.delta_record_count, one.changelog_record_count, one.watermark, one.next_row_id,
            )
            for one in found
        ),
    )  # fmt: skip


def _schemas(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return table_of(
        _SCHEMAS,
        (
            (
                schema.schema_id,
                _json(field_objects(schema)),
                _json(schema.partition_keys),
                _json(schema.primary_keys),
                _json(dict(schema.options)),
                schema.comment,
                wall_clock_ms(schema.time_millis),
            )
            for schema in map(table.schemas.schema, table.schemas.ids())
        ),
    )


def _options(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return table_of(_OPTIONS, sorted(table.schema.options.items()))


def _tags(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    return table_of(
        _TAGS,
        (
            (
                tag.name,
                tag.snapshot.snapshot_id,
                tag.snapshot.schema_id,
                wall_clock_ms(tag.snapshot.time_millis),
                tag.snapshot.total_record_count,
                tag.create_time_ms,
                None if tag.time_retained_ms is None else duration_text(tag.time_retained_ms),
            )
            for tag in table.tags.tags()
        ),
    )


def _branches(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    prefix = branch_root("", "").rpartition("/")[2]
    found = sorted(
        (status.name.removeprefix(prefix), wall_clock_ms(status.modified_millis))
        for status in table.file_io.list_status(f"{table.location}/branch")
        if status.is_folder and status.name.startswith(prefix)
    )
    return table_of(_BRANCHES, found)


def _consumers(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    found = table.consumers.consumers()
    return table_of(_CONSUMERS, ((one.consumer_id, one.next_snapshot) for one in found))


def _aggregation_fields(table: FileStoreTable, _: Snapshot | None) -> pa.Table:
    options = [(key.split("."), key, value) for key, value in table.schema.options.items()]
    told = [(parts[1], key, value) for parts, key, value in options if _is_of_field(parts)]

    def texts(name: str, place: int) -> str:
        return f"[{', '.join(one[place] for one in told if one[0] == name)}]"

    return table_of(
        _AGGREGATION_FIELDS,
        (
            (
                field.name,
                str(field.data_type),
                texts(field.name, 2),
                texts(field.name, 1),
                field.description,
            )
            for field in table.schema.fields
        ),
    )


def _is_of_field(parts: list[str]) -> bool:
    return len(parts) > 2 and parts[0] == "fields"


def _statistics(table: FileStoreTable, snapshot: Snapshot | None) -> pa.Table:
    rows: list[Row] = []
    if snapshot is not None and snapshot.statistics is not None:
        data = table.file_io.read_bytes(table.paths.statistics(snapshot.statistics))
        told = JsonObject.decode(data, what="a file of statistics")
        rows = [
            (
                told.integer("snapshotId"),
                told.integer("schemaId"),
                told.optional_integer("mergedRecordCount"),
                told.optional_integer("mergedRecordSize"),
                _json(told.raw("colStats")),
            )
        ]
    return table_of(_STATISTICS, rows)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def duration_text(millis: int) -> str:
    """``PT24H0.5S``: as Java's Duration prints it."""
    seconds, fraction = divmod(millis, 1000)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    text = f"{hours}H" if hours else ""
    text += f"{minutes}M" if minutes else ""
    if seconds % 60 or fraction or not text:
        rest = f".{fraction:03}".rstrip("0") if fraction else ""
        text += f"{seconds % 60}{rest}S"
    return f"PT{text}"


SYSTEM_TABLES: dict[str, Callable[[FileStoreTable, Snapshot | None], pa.Table]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "options": _options,
    "files": system_files.files,
    "file_key_ranges": system_files.file_key_ranges,
    "manifests": system_files.manifests,
    "partitions": system_files.partitions,
    "buckets": system_files.buckets,
    "table_indexes": system_files.table_indexes,
    "tags": _tags,
    "branches": _branches,
    "consumers": _consumers,
    "aggregation_fields": _aggregation_fields,
    "statistics": _statistics,
}
"""By name; those of files and statistics look at one snapshot."""


def check_system_table(name: str) -> None:
    """See that there is such a system table.

    Raises:
        UsageError: there is none, or we do not read it.
    """
    known = (*SYSTEM_TABLES, *ROW_TABLES)
    if name == "row_tracking":
        raise UsageError(
            "stream_app does not read the system table 'row_tracking'",
            fix="read it with Paimon's own readers",
        )
    if name not in known:
        raise UsageError(
            unknown_key("system table", name, known), fix=f"there are {', '.join(known)}"
        )
