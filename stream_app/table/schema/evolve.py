"""A table follows what its messages tell: `planning.schema.evolution`, committed.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunctionBase.java#applySchemaChange`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.model.schema.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.schema.source_table import SourceTable
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.schema.evolution import evolution
from stream_app.planning.schema.schema_changes import SchemaChange
from stream_app.planning.schema.schema_diff import schema_differences
from stream_app.planning.sync.column_remarks import TableRemark, remarks_of_added
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.schema.alter import alter_by


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionRules:
    """How a table follows its source.

    Attributes:
        options: of ``type-mapping``.
        stops: whether a type that the column cannot follow is an error.
        quarantines: whether records with such a type are bad (`narrowed_columns`).
        tells: whether the log names such a type.
        made: as in `evolution`.
    """

    options: MappingOptions = NO_MAPPING_OPTIONS
    stops: bool = False
    quarantines: bool = False
    tells: bool = True
    made: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evolved:
    """What came of it.

    Attributes:
        changes: what differs from the schema that the caller has, in words; empty: nothing.
        kept: columns that do not follow their source, in words.
        remarks: what is to be said of columns that the caller's schema does not have.
    """

    schema: TableSchema
    changes: tuple[str, ...]
    kept: tuple[str, ...]
    remarks: Sequence[TableRemark] = ()


def evolve(table: FileStoreTable, source_table: SourceTable, rules: EvolutionRules) -> Evolved:
    """Bring the table's newest schema to hold what messages tell.

    Raises:
        UsageError: a change is not possible; nothing was changed.
    """
    kept: tuple[str, ...] = ()

    def changes_of(newest: TableSchema) -> Sequence[SchemaChange]:
        nonlocal kept
        decided = evolution(newest, source_table, rules.options, rules.made)
        kept = tuple(map(str, decided.kept))
        return decided.changes

    schema = alter_by(table, changes_of)
    added = set(schema.fields.names).difference(table.schema.fields.names)
    remarks = remarks_of_added(column for column in source_table.columns if column.name in added)
    return Evolved(schema, tuple(schema_differences(_stored(table), schema)), kept, remarks)


def _stored(table: FileStoreTable) -> TableSchema:
    """The table's schema without the options of this process."""
    return table.schemas.schema(table.schema.schema_id)
