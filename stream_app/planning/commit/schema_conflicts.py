"""Decides whether files of a writer's schema may be committed after the table's schema has changed.

`table.commit.commit_conflict_check` calls it. `table.job.table_job` calls it too, before it takes a
newer schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from stream_app.errors import UnsupportedTableError
from stream_app.model.options.bucket_options import BUCKET
from stream_app.model.options.core_options import OPTIONS, check_writable
from stream_app.model.schema.table_only_options import ENDING_OPTIONS, option_differences
from stream_app.model.schema.table_schema import TableSchema, existing_problems
from stream_app.model.schema.type_widening import keeps_values
from stream_app.model.snapshot import Snapshot

_MAY_CHANGE = frozenset({BUCKET.key})
"""Options that may change: partitions record their bucket count, which a commit checks."""


def schema_conflict(job_schema: TableSchema, latest_schema: TableSchema) -> str | None:
    """Return the reason why files of this writer's schema must not be committed, else None."""
    problem = adoption_conflict(job_schema, latest_schema)
    if problem is not None:
        return problem
    latest_columns = {column.field_id: column for column in latest_schema.fields}
    for column in job_schema.fields:
        latest_column = latest_columns.get(column.field_id, column)
        if not keeps_values(column.data_type, latest_column.data_type, compares_ids=True):
            job_type, latest_type = (
                column_type.data_type.as_nullable() for column_type in (column, latest_column)
            )
            return f"column {latest_column.name!r} was {job_type} and is {latest_type}"
    return None


def adoption_conflict(
    job_schema: TableSchema,
    latest_schema: TableSchema,
    configured_options: Mapping[str, str] | None = None,
) -> str | None:
    """Return the reason why a job of this schema cannot continue with the latest; None if it can.

    Args:
        configured_options: the options of the job's configuration.
    """
    for noun, old_keys, new_keys in (
        ("primary", job_schema.primary_keys, latest_schema.primary_keys),
        ("partition", job_schema.partition_keys, latest_schema.partition_keys),
    ):
        if old_keys != new_keys:
            return f"the {noun} keys were ({', '.join(old_keys)}) and are ({', '.join(new_keys)})"
    job_traits, latest_traits = job_schema.kind_traits, latest_schema.kind_traits
    if job_traits != latest_traits:
        return (
            f"its rows found their buckets {job_traits.bucket_mode}, and find them "
            f"{latest_traits.bucket_mode}"
        )
    for key in ENDING_OPTIONS:
        values = [OPTIONS[key].read(schema.options) for schema in (job_schema, latest_schema)]
        if key not in _MAY_CHANGE and values[0] != values[1]:
            return f"option {key!r} was {values[0]} and is {values[1]}"
    differences = option_differences(latest_schema, configured_options or {})
    if texts := [
        str(difference) for difference in differences if difference.key not in _MAY_CHANGE
    ]:
        return "; ".join(texts)
    try:
        check_writable(
            latest_schema.options, latest_schema.primary_keys, latest_schema.partition_keys
        )
    except UnsupportedTableError as error:
        return error.problem
    problems = existing_problems(
        latest_schema.fields,
        latest_schema.primary_keys,
        latest_schema.partition_keys,
        latest_schema.options,
    )
    return "; ".join(problems) or None


def schema_origin_text(schema: TableSchema, recent_snapshots: Iterable[Snapshot]) -> str:
    """Describe a schema by its time and its first commit user: Paimon records no author.

    Args:
        recent_snapshots: the latest commits, newest first.
    """
    created_text = datetime.fromtimestamp(schema.time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    origin_text = f"schema {schema.schema_id} was made at {created_text}"
    snapshots = [
        snapshot for snapshot in recent_snapshots if snapshot.schema_id >= schema.schema_id
    ]
    if not snapshots:
        return f"{origin_text}, and no writer has committed by it yet"
    first_snapshot = snapshots[-1]
    place = f"snapshot {first_snapshot.snapshot_id} ({first_snapshot.commit_kind.value})"
    user = first_snapshot.commit_user
    return f"{origin_text}; the first to commit by it was user {user}, in {place}"
