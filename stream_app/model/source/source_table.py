"""The description of a source table from its messages: its columns and its key.

Made by the formats (`SourceFacts.describe`); a table is created or altered by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from stream_app.model.schema.data_type import DataType
from stream_app.model.schema.type_widening import keeps_values


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on values or properties that a column loses on its way from the source.

    Attributes:
        fix: in words, with ``{}`` for the key of `option`.
        option: the option of the format, or of ``[sync]``; empty: none.
    """

    what: str
    fix: str
    option: str = ""

    def remedy(self, full_key: Callable[[str], str]) -> str:
        """The fix, with the key as the configuration spells it."""
        return self.fix.replace("{}", full_key(self.option))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of the source.

    Attributes:
        data_type: the type of the table's column; NOT NULL where the source says so.
        is_typed: whether the source gives the type; else plain JSON gives STRING, which says
            nothing of a column that the table has.
        alternatives: types of which a table may have the column, each exact or as chosen.
        has_default: whether the source gives it a DEFAULT that is not null.
        remarks: what is to be said of it once.
    """

    name: str
    data_type: DataType
    comment: str | None = None
    is_typed: bool = True
    alternatives: tuple[DataType, ...] = ()
    has_default: bool = False
    remarks: tuple[Remark, ...] = field(default=(), compare=False)

    def type_beside(self, column: DataType) -> DataType:
        """The source's type beside that of the table's column."""
        same = (alternative for alternative in self.alternatives if alternative.root is column.root)
        chosen = next(same, self.data_type)
        return chosen.as_nullable() if self.data_type.nullable else chosen.not_null()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of the source.

    Attributes:
        primary_keys: columns of the key in its order; empty if the messages show none.
    """

    columns: tuple[SourceColumn, ...]
    primary_keys: tuple[str, ...] = ()

    def column(self, name: str) -> SourceColumn | None:
        """The column of this name."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def is_typed(self) -> bool:
        """Whether the source gives types, and so all of its columns."""
        return any(column.is_typed for column in self.columns)


def with_aliases(table: SourceTable, aliases: Mapping[str, str]) -> SourceTable:
    """The table with other names for some columns; merges columns that get the same name."""
    by_name: dict[str, SourceColumn] = {}
    for column in table.columns:
        name = aliases.get(column.name, column.name)
        other = replace(column, name=name)
        by_name[name] = _both(by_name[name], other) if name in by_name else other
    return replace(table, columns=tuple(by_name.values()))


def merged_source_table(earlier: SourceTable, later: SourceTable) -> SourceTable:
    """Merge two tables whose rows go to one table: two versions of a table, or two shards.

    A column of both has the wider type, or the later one where neither holds all values of the
    other. It is nullable if it is so in one, or missing in one.
    """
    columns = []
    for column in earlier.columns:
        other = later.column(column.name)
        columns.append(_nullable(column) if other is None else _both(column, other))
    added = [
        _nullable(added_column)
        for added_column in later.columns
        if earlier.column(added_column.name) is None
    ]
    return SourceTable(
        columns=(*columns, *added), primary_keys=later.primary_keys or earlier.primary_keys
    )


def _nullable(column: SourceColumn) -> SourceColumn:
    return replace(column, data_type=column.data_type.as_nullable())


def _both(earlier: SourceColumn, later: SourceColumn) -> SourceColumn:
    if earlier.is_typed != later.is_typed:
        return earlier if earlier.is_typed else later
    is_narrower = keeps_values(later.data_type, earlier.data_type)
    kept = earlier if is_narrower else later
    nullable = earlier.data_type.nullable or later.data_type.nullable
    data_type = kept.data_type.as_nullable() if nullable else kept.data_type
    return replace(kept, data_type=data_type, comment=later.comment or earlier.comment)
