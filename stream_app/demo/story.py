"""Shows what happened to the demo's tables: schemas, snapshots, files and some changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.selection import ROW_KIND_NAME
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG_HEAD, _LOG_TAIL = 3, 5
_SHOWN_CHANGES_MAX = 6
_KIND_STYLES = {"+I": "green", "-U": "yellow", "+U": "yellow", "-D": "red"}


def story(tables: Mapping[str, FileStoreTable]) -> Iterator[RenderableType]:
    """Yield all parts of the report. The log and the changes are those of the altered tables."""
    snapshots = {
        name: [table.snapshots.snapshot(snapshot_id) for snapshot_id in table.snapshots.ids()]
        for name, table in tables.items()
    }
    yield _schemas(tables, snapshots)
    yield _snapshots_and_files(tables, snapshots)
    yield _snapshot_log("orders", snapshots["orders"])
    yield _changelog("customers", tables["customers"], snapshots["customers"])


def _report_table(title: str, *names: str, right: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.title_style = "bold"
    for name in names:
        table.add_column(name, justify="right" if name in right else "left")
    return table


def _schemas(
    tables: Mapping[str, FileStoreTable], snapshots: Mapping[str, Sequence[Snapshot]]
) -> Table:
    """Return the table of all schemas, with their first snapshots and the columns that changed."""
    report = _report_table(
        "schemas: made from the messages, and altered by them",
        "table", "schema", "from", "columns", right=("schema",),
    )  # fmt: skip
    for name, table in tables.items():
        schemas = [table.schemas.schema(schema_id) for schema_id in table.schemas.ids()]
        for previous_schema, schema in itertools.pairwise([None, *schemas]):
            assert schema is not None
            snapshot_ids = (
                snapshot.snapshot_id
                for snapshot in snapshots[name]
                if snapshot.schema_id == schema.schema_id
            )
            first_id = next(snapshot_ids, None)
            report.add_row(
                "" if previous_schema else name,
                str(schema.schema_id),
                f"snapshot {first_id}" if first_id else "–",
                _columns_text(previous_schema, schema),
                style="bold" if previous_schema else None,
            )
    return report


def _columns_text(previous_schema: TableSchema | None, schema: TableSchema) -> str:
    """Return all columns of the first schema, or the differences from the previous schema."""
    if previous_schema is None:
        return ", ".join(f"{field.name} {field.data_type}" for field in schema.fields)
    old_types = {field.name: field.data_type for field in previous_schema.fields}
    return ", ".join(
        f"+ {field.name} {field.data_type}"
        if field.name not in old_types
        else f"{field.name} {old_types[field.name]} → {field.data_type}"
        for field in schema.fields
        if old_types.get(field.name) != field.data_type
    )


def _snapshots_and_files(
    tables: Mapping[str, FileStoreTable], snapshots: Mapping[str, Sequence[Snapshot]]
) -> Table:
    """Return the table of snapshots by kind, and of files before a compaction and at the end."""
    report = _report_table(
        "snapshots and files: compacted by the job itself",
        "table", "APPEND", "COMPACT", "files before a compaction", "at the end",
        right=("APPEND", "COMPACT"),
    )  # fmt: skip
    for name, table in tables.items():
        log = snapshots[name]
        compact_count = sum(snapshot.commit_kind is CommitKind.COMPACT for snapshot in log)
        scan = FileStoreScan(table)
        largest_file_count = max(
            len(scan.live(snapshot))
            for snapshot, next_snapshot in [*itertools.pairwise(log), (log[-1], None)]
            if next_snapshot is None or next_snapshot.commit_kind is CommitKind.COMPACT
        )
        at_end = len(scan.live(log[-1]))
        appends = str(len(log) - compact_count)
        report.add_row(
            name, appends, str(compact_count), _files_text(largest_file_count), _files_text(at_end)
        )
    return report


def _files_text(count: int) -> str:
    return f"{count:2} {'▇' * min(count, 20)}"


def _snapshot_log(name: str, snapshots: Sequence[Snapshot]) -> Table:
    """Return the table of a table's snapshots; a row of dots replaces those in the middle."""
    names = ("snapshot", "kind", "epoch", "schema", "rows in files", "change", "changelog")
    report = _report_table(
        f"snapshots of {name}", *names, right=[column for column in names if column != "kind"]
    )
    hidden_count = len(snapshots) - _LOG_HEAD - _LOG_TAIL
    for index, snapshot in enumerate(snapshots):
        if hidden_count > 0 and _LOG_HEAD <= index < _LOG_HEAD + hidden_count:
            if index == _LOG_HEAD:
                report.add_row(*["⋮"] * len(names), style="dim")
            continue
        report.add_row(
            str(snapshot.snapshot_id),
            snapshot.commit_kind.value,
            str(snapshot.commit_identifier),
            str(snapshot.schema_id),
            f"{snapshot.total_record_count:,}",
            f"{snapshot.delta_record_count:+,}",
            f"{snapshot.changelog_record_count or 0:,}",
            style="magenta" if snapshot.commit_kind is CommitKind.COMPACT else None,
        )
    return report


def _changelog(name: str, table: FileStoreTable, snapshots: Sequence[Snapshot]) -> Table:
    """Show some changes of the latest snapshot that has any."""
    names = table.schema.fields.names
    report = _report_table(f"from the changelog of {name}", "kind", *names)
    paimon_table = PaimonTable(table)
    batches = (
        [(str(row[ROW_KIND_NAME]), row) for row in batch.rows.to_pylist()]
        for snapshot in reversed(snapshots)
        for batch in paimon_table.changelog(snapshot=snapshot.snapshot_id, end=snapshot.snapshot_id)
    )
    changes: list[tuple[str, dict[str, Any]]] = max(
        itertools.islice(batches, _LOG_TAIL),
        key=lambda rows: min(len(rows), _SHOWN_CHANGES_MAX),
        default=[],
    )
    # From the first update on, so that before and after are together.
    start = next((index for index, (kind, _) in enumerate(changes) if kind == "-U"), 0)
    for kind, row in changes[start : start + _SHOWN_CHANGES_MAX]:
        values = ("" if row[column] is None else str(row[column]) for column in names)
        report.add_row(kind, *values, style=_KIND_STYLES[kind])
    return report
