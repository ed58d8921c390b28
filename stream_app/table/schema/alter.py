"""Commits a new version of a table's schema; files of older versions stay as they are.

1. Compute the next schema from the latest one (`planning.schema.alteration`), for changes that an
   operator requests or messages describe (`planning.schema.evolution`).
2. Create its file under the next number. The loser of a race begins again with the winner's schema.

Readers and compactions cast values of older versions and fill missing columns
(`filestore.data.data_file_reader`).

Source: Paimon `schema/SchemaManager.java#commitChanges`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.catalog.catalog_environment import NO_CATALOG
from stream_app.errors import TableNotFoundError
from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.rules import can_become, default_value
from stream_app.model.schema.data_type import DataType
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.source.source_table import SourceTable
from stream_app.planning.schema.alteration import Casting, altered_schema
from stream_app.planning.schema.evolution import evolution
from stream_app.planning.schema.schema_changes import SchemaChange, schema_differences
from stream_app.planning.sync.column_remarks import TableRemark, remarks_of_added
from stream_app.table.file_store_table import FileStoreTable


def _default_problem(text: str, data_type: DataType) -> str | None:
    try:
        default_value(text, data_type)
    except CastError as error:
        return str(error)
    return None


_CASTING = Casting(can_cast=can_become, find_default_problem=_default_problem)


def next_schema(table: FileStoreTable, changes: Sequence[SchemaChange]) -> TableSchema:
    """Return the schema that `alter_table` would commit; the latest one if nothing changes.

    Raises:
        UsageError: a change is not possible.
        TableNotFoundError: the table was deleted.
    """
    return _altered_schema(table, _latest_schema(table), changes)


def alter_table(table: FileStoreTable, changes: Sequence[SchemaChange]) -> TableSchema:
    """Change the table's schema, and return the latest schema.

    Raises:
        UsageError: a change is not possible; nothing was changed.
        TableNotFoundError: the table was deleted.
    """
    return alter_by(table, lambda _: changes)


def alter_by(
    table: FileStoreTable, changes_of: Callable[[TableSchema], Sequence[SchemaChange]]
) -> TableSchema:
    """Alter a table as `alter_table` does, with changes that depend on the latest schema."""
    while True:
        latest_schema = _latest_schema(table)
        changes = changes_of(latest_schema)
        schema = _altered_schema(table, latest_schema, changes)
        if schema is latest_schema:
            return schema
        # A catalog knows only the main branch's schema.
        catalog_environment = NO_CATALOG if table.branch else table.catalog_environment
        published_schema = catalog_environment.publish_schema(table.schemas, schema, changes)
        if published_schema is not None:
            return published_schema


def _latest_schema(table: FileStoreTable) -> TableSchema:
    latest_schema = table.schemas.latest()
    if latest_schema is None:
        raise TableNotFoundError(
            "the table has no schema any more", where=table.location, fix="create it again"
        )
    return latest_schema


def _altered_schema(
    table: FileStoreTable, latest_schema: TableSchema, changes: Sequence[SchemaChange]
) -> TableSchema:
    return altered_schema(
        latest_schema,
        changes,
        _CASTING,
        has_snapshots=table.snapshots.latest_id() is not None,
        time_ms=table.clock.now_ms(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionRules:
    """The rules by which a table follows its source.

    Attributes:
        options: the options of ``type-mapping``.
        stops_job: whether a type that the column cannot follow is an error.
        quarantines_narrowed: whether records with such a type are quarantined (`narrowed_columns`).
        logs_warning: whether the log reports such a type.
        made_columns: computed column of the table → the source columns that decide its value.
    """

    options: MappingOptions = NO_MAPPING_OPTIONS
    stops_job: bool = False
    quarantines_narrowed: bool = False
    logs_warning: bool = True
    made_columns: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvolutionOutcome:
    """The outcome of an evolution.

    Attributes:
        changes: texts about the differences from the caller's schema; empty if it is the latest.
        kept_columns: texts about columns that do not follow their source.
        remarks: texts about columns that the caller's schema lacks.
    """

    schema: TableSchema
    changes: tuple[str, ...]
    kept_columns: tuple[str, ...]
    remarks: Sequence[TableRemark] = ()


def evolve(
    table: FileStoreTable, source_table: SourceTable, rules: EvolutionRules
) -> EvolutionOutcome:
    """Extend the table's latest schema to hold what messages describe.

    Raises:
        UsageError: a change is not possible; nothing was changed.
    """
    kept_columns: tuple[str, ...] = ()

    def changes_of(latest_schema: TableSchema) -> Sequence[SchemaChange]:
        nonlocal kept_columns
        schema_evolution = evolution(latest_schema, source_table, rules.options, rules.made_columns)
        kept_columns = tuple(map(str, schema_evolution.kept_columns))
        return schema_evolution.changes

    schema = alter_by(table, changes_of)
    added_names = set(schema.fields.names).difference(table.schema.fields.names)
    remarks = remarks_of_added(
        column for column in source_table.columns if column.name in added_names
    )
    # The schema in the table's folder lacks the options of this process.
    stored_schema = table.schemas.schema(table.schema.schema_id)
    differences = tuple(schema_differences(stored_schema, schema))
    return EvolutionOutcome(schema, differences, kept_columns, remarks)
