"""Computes a schema's changes that its messages require, and the columns that cannot follow.

1. A column that the table lacks is added as nullable.
2. A column whose source type has grown is widened to a type that holds all values of both.
3. A column that is nullable in the source, or dropped there, becomes nullable in the table.
4. A comment of the source becomes the column's.
5. Other differences change nothing: narrower and unrelated types, and key columns.
6. A column that the job computes becomes nullable if a source column that decides its value may be
   null. It takes nothing else from the source.

Source: Paimon `flink/sink/cdc/UpdatedDataFieldsProcessFunctionBase.java#extractSchemaChanges`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    DECIMAL_PRECISION_MAX,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    TypeRoot,
)
from stream_app.model.schema.iceberg_schema import iceberg_change_problem
from stream_app.model.schema.table_schema import KEY_PREFIX, RESERVED_NAMES, TableSchema
from stream_app.model.source.mapping_options import MappingOption, MappingOptions
from stream_app.model.source.source_table import SourceColumn, SourceTable
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeNullability,
    ChangeType,
    SchemaChange,
    SetColumnComment,
)

NONE_MADE: Mapping[str, Collection[str]] = {}
_ORDER = (
    *(TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT),
    *(TypeRoot.FLOAT, TypeRoot.DOUBLE),
)
"""Numbers, each wider than the one before it in its family."""


class MergeKind(enum.Enum):
    """The outcome of a merge of column types."""

    SAME = "same"
    WIDENED = "widened"
    NARROWER = "narrower"
    """The source's type holds fewer values: the column keeps its type."""
    INCOMPATIBLE = "incompatible"
    """The types have nothing in common: the column keeps its type."""


@dataclass(frozen=True, slots=True)
class MergedType:
    """The outcome for one column, and its resulting type."""

    kind: MergeKind
    data_type: DataType


def merge_types(column: DataType, source_type: DataType, options: MappingOptions) -> MergedType:
    """Merge a column's type with that of the source, and keep the column's nullability.

    A nested column also accepts JSON texts, so it keeps its type with any source type.
    """
    if column.is_nested:
        return MergedType(MergeKind.SAME, column)
    common_type = _common_type(column.as_nullable(), source_type.as_nullable(), options)
    if common_type is None:
        return MergedType(MergeKind.INCOMPATIBLE, column)
    if common_type == column.as_nullable():
        is_same = source_type.as_nullable() == common_type
        return MergedType(MergeKind.SAME if is_same else MergeKind.NARROWER, column)
    if _keeps_its_type(column, options):
        return MergedType(MergeKind.SAME, column)
    return MergedType(MergeKind.WIDENED, common_type if column.nullable else common_type.not_null())


def _keeps_its_type(column: DataType, options: MappingOptions) -> bool:
    is_decimal = column.root is TypeRoot.DECIMAL
    return MappingOption.NO_CHANGE in options or (
        is_decimal and MappingOption.DECIMAL_NO_CHANGE in options
    )


def _common_type(
    column: DataType, source_type: DataType, options: MappingOptions
) -> DataType | None:
    """Return the narrowest type of the column's family that holds the values of both, or None."""
    for roots in (INTEGER_ROOTS, FLOAT_ROOTS):
        if column.root in roots and source_type.root in roots:
            return max(column, source_type, key=lambda candidate: _ORDER.index(candidate.root))
    for roots in (STRING_ROOTS, BINARY_ROOTS):
        if column.root in roots and source_type.root in roots:
            return _longer_text(column, source_type)
    if column.root is TypeRoot.DECIMAL and source_type.root is TypeRoot.DECIMAL:
        return _wider_decimal(column, source_type)
    if column.root is source_type.root and column.root in (TypeRoot.TIME, *TIMESTAMP_ROOTS):
        return max(column, source_type, key=lambda candidate: candidate.precision)
    if column.root is source_type.root:
        return column
    is_allowed = MappingOption.ALLOW_NON_STRING_TO_STRING in options
    return STRING if is_allowed and source_type.root in STRING_ROOTS else None


def _longer_text(column: DataType, source_type: DataType) -> DataType:
    """Return the longer of two text types; CHAR becomes VARCHAR if its length changes."""
    if column.length >= source_type.length:
        return column
    varying_root = TypeRoot.VARCHAR if column.root in STRING_ROOTS else TypeRoot.VARBINARY
    root = column.root if column.root is source_type.root else varying_root
    return replace(source_type, root=root)


def _wider_decimal(column: DataType, source_type: DataType) -> DataType | None:
    scale = max(column.scale, source_type.scale)
    digits = max(column.precision - column.scale, source_type.precision - source_type.scale)
    if digits + scale > DECIMAL_PRECISION_MAX:
        return None
    return DataType(root=TypeRoot.DECIMAL, precision=digits + scale, scale=scale)


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column that does not follow its source.

    Attributes:
        table_type: the column's type in the table; None if the table does not get the column.
        source_type: the source's type.
        reason: why the column does not follow, as a text for warnings.
    """

    name: str
    table_type: DataType | None
    source_type: DataType
    reason: str

    def __str__(self) -> str:
        if self.table_type is None:
            source_column = f"{self.name!r} ({self.source_type})"
            return f"the table does not take column {source_column}: {self.reason}"
        return (
            f"column {self.name!r} stays {self.table_type}, and is {self.source_type} in the "
            f"source: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class Evolution:
    """The source's changes that a table adopts, and those that it does not adopt."""

    changes: tuple[SchemaChange, ...]
    kept_columns: tuple[KeptColumn, ...] = ()


def evolution(
    schema: TableSchema,
    source_table: SourceTable,
    options: MappingOptions,
    made_from: Mapping[str, Collection[str]] = NONE_MADE,
) -> Evolution:
    """Compare a table with the descriptions in its messages.

    Args:
        made_from: computed column of the table → the source columns that decide its value.
    """
    changes: list[SchemaChange] = []
    kept_columns: list[KeptColumn] = []
    columns = {column.name: column for column in schema.fields}
    for source_column in source_table.columns:
        name, data_type = source_column.name, source_column.data_type
        column = columns.get(name)
        if name in made_from:  # rule 6
            kept_columns.append(KeptColumn(name, None, data_type, "the job makes one of that name"))
        elif column is not None:
            column_evolution = _follow(schema, column, source_column, options)
            changes += column_evolution.changes
            kept_columns += column_evolution.kept_columns
        elif name in RESERVED_NAMES or name.startswith(KEY_PREFIX):
            kept_columns.append(KeptColumn(name, None, data_type, "Paimon reserves the name"))
        else:  # rule 1
            changes.append(
                AddColumn(
                    name=name, data_type=data_type.as_nullable(), comment=source_column.comment
                )
            )
    missing_names = {
        column.name
        for column in schema.fields
        if source_table.is_typed
        and source_table.column(column.name) is None
        and column.default_value is None
    }
    may_be_null = missing_names | {
        source_column.name
        for source_column in source_table.columns
        if source_column.data_type.nullable
    }
    # rule 6
    missing_names -= {name for name in made_from if may_be_null.isdisjoint(made_from[name])}
    # Rules 3 and 6.
    changes += (
        ChangeNullability(column.name, nullable=True)
        for column in schema.fields
        if column.name in missing_names and _may_become_nullable(schema, column)
    )
    return Evolution(tuple(changes), tuple(kept_columns))


def type_times(schemas: Iterable[TableSchema]) -> dict[str, int]:
    """Return the time in ms of the schema version that gave each column its type.

    Args:
        schemas: the versions of a table's schema, newest first, of which only the needed ones are
            consumed.
    """
    times: dict[str, int] = {}
    unchanged_columns: dict[int, DataField] | None = None
    for schema in schemas:
        fields = {column.field_id: column for column in schema.fields}
        if unchanged_columns is None:
            unchanged_columns = fields
        unchanged_columns = {
            field_id: column
            for field_id, column in unchanged_columns.items()
            if field_id in fields
            and fields[field_id].data_type.as_nullable() == column.data_type.as_nullable()
        }
        times.update((column.name, schema.time_ms) for column in unchanged_columns.values())
        if not unchanged_columns:
            break
    return times


def _follow(
    schema: TableSchema, column: DataField, source_column: SourceColumn, options: MappingOptions
) -> Evolution:
    """Return how a column follows its source: the changes, and the column if it keeps its type."""
    changes: list[SchemaChange] = []
    kept_columns: tuple[KeptColumn, ...] = ()
    if source_column.is_typed:
        source_type = source_column.type_beside(column.data_type)
        merged_type = merge_types(column.data_type, source_type, options)
        if reason := _reason_kept(schema, column, merged_type):  # rule 5
            kept_columns = (KeptColumn(column.name, column.data_type, source_type, reason),)
        elif merged_type.kind is MergeKind.WIDENED:  # rule 2
            changes.append(ChangeType(column.name, merged_type.data_type))
        if source_column.data_type.nullable and _may_become_nullable(schema, column):  # rule 3
            changes.append(ChangeNullability(column.name, nullable=True))
    if source_column.comment is not None and source_column.comment != column.description:  # rule 4
        changes.append(SetColumnComment(column.name, source_column.comment))
    return Evolution(tuple(changes), kept_columns)


def _reason_kept(schema: TableSchema, column: DataField, merged_type: MergedType) -> str | None:
    match merged_type.kind:
        case MergeKind.SAME:
            return None
        case MergeKind.NARROWER:
            return "a narrower type never replaces a wider one"
        case MergeKind.INCOMPATIBLE:
            return "no type of the column's kind holds the values of both"
        case MergeKind.WIDENED:
            fixed_names = {*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys}
            if column.name in fixed_names:
                return "columns of a key keep their types"
            return iceberg_change_problem(column.data_type, merged_type.data_type, schema.options)


def _may_become_nullable(schema: TableSchema, column: DataField) -> bool:
    return not column.data_type.nullable and column.name not in schema.primary_keys
