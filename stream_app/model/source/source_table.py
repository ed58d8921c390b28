"""Describes a source table, by its messages: its columns and its key.

Formats make the description (`SourceExtractor.describe`), by which a table is created or altered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stream_app.model.schema.data_type import DataType
from stream_app.model.schema.type_widening import keeps_values


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on values or properties that a column loses on the way from the source.

    Attributes:
        fix: the remedy, with ``{}`` for the key of `option`.
        option: the option of the format, or of ``[sync]``; empty without one.
    """

    predicate: str
    fix: str
    option: str = ""

    def remedy(self, full_key_of: Callable[[str], str]) -> str:
        """Return the fix, with the key as in the configuration."""
        return self.fix.replace("{}", full_key_of(self.option))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of the source.

    Attributes:
        data_type: the type of the table's column; NOT NULL if the source says so.
        is_typed: whether the source has the type. Plain JSON has only STRING, which does not affect
            an existing column.
        alternatives: other types that the table's column may have, exact or as configured.
        has_default: whether the source has a DEFAULT that is not null.
        remarks: remarks that are reported once.
    """

    name: str
    data_type: DataType
    comment: str | None = None
    is_typed: bool = True
    alternatives: tuple[DataType, ...] = ()
    has_default: bool = False
    remarks: tuple[Remark, ...] = field(default=(), compare=False)

    def type_beside(self, column_type: DataType) -> DataType:
        """Return the source's type for comparison with the table's column."""
        same_root_types = (
            alternative for alternative in self.alternatives if alternative.root is column_type.root
        )
        data_type = next(same_root_types, self.data_type)
        return data_type.as_nullable() if self.data_type.nullable else data_type.not_null()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of the source.

    Attributes:
        primary_keys: the key columns in order; empty if the messages show none.
    """

    columns: tuple[SourceColumn, ...]
    primary_keys: tuple[str, ...] = ()

    def column(self, name: str) -> SourceColumn | None:
        """Return the column of a name; None without one."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def is_typed(self) -> bool:
        """Whether the source has types, and so describes all of its columns."""
        return any(column.is_typed for column in self.columns)


def with_aliases(table: SourceTable, aliases: Mapping[str, str]) -> SourceTable:
    """Return the table with renamed columns, and merge columns that get the same name."""
    column_by_name: dict[str, SourceColumn] = {}
    for column in table.columns:
        name = aliases.get(column.name, column.name)
        renamed_column = replace(column, name=name)
        column_by_name[name] = (
            _wider_column(column_by_name[name], renamed_column)
            if name in column_by_name
            else renamed_column
        )
    return replace(table, columns=tuple(column_by_name.values()))


def merged_source_table(earlier_table: SourceTable, later_table: SourceTable) -> SourceTable:
    """Merge two tables whose rows go to one table: two versions of a table, or two shards.

    A column of both gets the wider type, or the later one if neither holds all values of the other.
    It is nullable if it is nullable or missing in one.
    """
    columns = []
    for column in earlier_table.columns:
        later_column = later_table.column(column.name)
        columns.append(
            _as_nullable(column) if later_column is None else _wider_column(column, later_column)
        )
    added_columns = [
        _as_nullable(added_column)
        for added_column in later_table.columns
        if earlier_table.column(added_column.name) is None
    ]
    return SourceTable(
        columns=(*columns, *added_columns),
        primary_keys=later_table.primary_keys or earlier_table.primary_keys,
    )


def _as_nullable(column: SourceColumn) -> SourceColumn:
    return replace(column, data_type=column.data_type.as_nullable())


def _wider_column(earlier_column: SourceColumn, later_column: SourceColumn) -> SourceColumn:
    if earlier_column.is_typed != later_column.is_typed:
        return earlier_column if earlier_column.is_typed else later_column
    is_narrower = keeps_values(later_column.data_type, earlier_column.data_type)
    wider_column = earlier_column if is_narrower else later_column
    nullable = earlier_column.data_type.nullable or later_column.data_type.nullable
    data_type = wider_column.data_type.as_nullable() if nullable else wider_column.data_type
    return replace(
        wider_column, data_type=data_type, comment=later_column.comment or earlier_column.comment
    )
