"""Decides how a table reacts to a renamed column of its source. Pure.

The source's DDL statement has the old and the new name. When a row with the new name arrives, the
table's column is renamed. From then on values under the old name also go to this column, because
older rows may still arrive. The table's option `RENAMED_COLUMNS` records these names.

If names alone do not determine a value's column, the table is held back instead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.model.options.schema_options import RENAMED_COLUMNS
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.ddl_statements import Renaming
from stream_app.model.source.source_renames import RenameReaction, SourceTableRenames
from stream_app.planning.schema.schema_changes import RenameColumn, SchemaChange, SetOption

RENAMES = "renames"
_OTHERWISE = "or set sync.tables.NAME.renames = 'new-column'"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameDecision:
    """The reaction of one table to the renames of its source.

    Attributes:
        renames: the columns that get new names.
        aliases: each source name that means another column of the table after the renames.
        problem: why the table is held back; empty if it is not.
        fix: the remedy of the problem.
        awaited_columns: columns of which no DDL statement was read so far.
        awaits_statement: whether such a statement may still arrive.
    """

    renames: tuple[Renaming, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    fix: str = ""
    awaited_columns: tuple[str, ...] = ()
    awaits_statement: bool = True

    def changes(self, schema: TableSchema) -> list[SchemaChange]:
        """Return the changes of the table's schema."""
        changes: list[SchemaChange] = [
            RenameColumn(old_name, new_name) for old_name, new_name in self.renames
        ]
        for key, value in options_of_renamed(self.aliases).items():
            if value != schema.options.get(key):
                changes.append(SetOption(key, value))
        return changes


def column_renames(
    schema: TableSchema,
    sent_columns: Collection[str],
    table_renames: Sequence[SourceTableRenames],
    reaction: RenameReaction,
    *,
    can_alias: bool = True,
) -> RenameDecision:
    """Decide by the names in messages and the DDL statements so far.

    Args:
        sent_columns: the columns of the messages; a renamed one may have both names in one epoch.
        table_renames: the renames of the source tables whose rows the table has.
        can_alias: whether the format accepts values under an old name.
    """
    return _NameSearch(schema, table_renames, reaction, can_alias).decide(sent_columns)


def renames_in_new_table(
    names: Collection[str], keys: Collection[str], table_renames: Sequence[SourceTableRenames]
) -> dict[str, str]:
    """Return earlier name → current name of a column, for a table that is to be created.

    The messages may be from before and after a rename.
    """
    original_names = {name.lower(): name for name in names}
    newer_names = {
        pair.old_name.lower(): pair.new_name.lower()
        for table in table_renames
        for pair in table.pairs
    }
    present_names = {name.lower() for renames in table_renames for name in renames.present}
    names_in_new_table: dict[str, str] = {}
    for name in original_names.keys() - present_names:
        passed_names, last_name = {name}, name
        while (
            next_name := newer_names.get(last_name)
        ) is not None and next_name not in passed_names:
            last_name = next_name
            passed_names.add(last_name)
        if (
            last_name != name
            and last_name in original_names
            and original_names[last_name] not in keys
        ):
            names_in_new_table[original_names[name]] = original_names[last_name]
    return names_in_new_table


def options_of_renamed(aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the table's option if a source name means another column; else none."""
    text = ", ".join(f"{old_name}={new_name}" for old_name, new_name in sorted(aliases.items()))
    return {RENAMED_COLUMNS.key: text} if text else {}


def renamed_columns(schema: TableSchema) -> dict[str, str]:
    """Return old name → the table's column, from the table's option."""
    text = schema.options.get(RENAMED_COLUMNS.key, "")
    pairs = (part.partition("=") for part in text.split(","))
    names = schema.fields.names
    aliases = {old_name.strip(): new_name.strip() for old_name, _, new_name in pairs}
    return {
        old_name: new_name
        for old_name, new_name in aliases.items()
        if new_name in names and old_name not in names
    }


class _NameSearch:
    """The table's names during a sequence of decisions; MySQL's ignore case."""

    def __init__(
        self,
        schema: TableSchema,
        table_renames: Sequence[SourceTableRenames],
        reaction: RenameReaction,
        can_alias: bool,
    ) -> None:
        self._schema = schema
        self._table_renames = table_renames
        self._reaction = reaction
        self._can_alias = can_alias
        self._names = {name.lower(): name for name in schema.fields.names}
        self._aliases = renamed_columns(schema)
        self._present_names = {
            name.lower() for renames in table_renames for name in renames.present
        }
        pairs = [pair for renames in table_renames for pair in renames.pairs]
        self._old_names = {pair.new_name.lower(): pair.old_name.lower() for pair in pairs}
        self._new_names = {pair.old_name.lower(): pair.new_name.lower() for pair in pairs}

    def decide(self, sent_columns: Collection[str]) -> RenameDecision:
        """Return the renames of the columns in the messages, or the first problem with one."""
        if problem := self._unclear_names():
            return problem
        renames: list[Renaming] = []
        awaited_columns: list[str] = []
        for name in sent_columns:
            if name in self._names.values() or name in self._aliases:
                continue
            if (column := self._later_name(name)) is not None:
                self._aliases[name] = column
            elif (old_name := self._earlier_name(name)) is not None:
                if problem := self._problem(old_name, name):
                    return problem
                self._rename(old_name, name)
                renames.append(Renaming(old_name, name))
            elif name.lower() not in self._present_names:
                awaited_columns.append(name)
        return RenameDecision(
            renames=tuple(renames),
            aliases=self._aliases,
            awaited_columns=tuple(awaited_columns),
            awaits_statement=not any(renames.is_partial for renames in self._table_renames),
        )

    def _rename(self, old_name: str, new_name: str) -> None:
        del self._names[old_name.lower()]
        self._names[new_name.lower()] = new_name
        aliases = {
            name: new_name if column == old_name else column
            for name, column in self._aliases.items()
        }
        self._aliases = {**aliases, old_name: new_name}
        self._aliases.pop(new_name, None)

    def _later_name(self, name: str) -> str | None:
        """Return the table's column that formerly had this name in the source; None without one."""
        if name.lower() in self._present_names:
            return None
        return self._last_name(name, self._new_names)

    def _earlier_name(self, name: str) -> str | None:
        """Return the table's column that now has this name in the source; None without one."""
        return self._last_name(name, self._old_names)

    def _last_name(self, name: str, name_steps: Mapping[str, str]) -> str | None:
        lower_name = name.lower()
        passed_names = {lower_name}
        while (
            next_name := name_steps.get(lower_name)
        ) is not None and next_name not in passed_names:
            lower_name = next_name
            passed_names.add(lower_name)
            if lower_name in self._names:
                return self._names[lower_name]
        return None

    def _unclear_names(self) -> RenameDecision | None:
        """Return names that other columns have got."""
        for old_name, new_name in self._aliases.items():
            if old_name.lower() in self._present_names and self._new_names.get(old_name.lower()):
                return RenameDecision(
                    problem=f"the source has renamed column {old_name!r}, which is {new_name!r} "
                    f"here, and has a new column {old_name!r}",
                    fix=f"run stream-app alter TABLE --add-column '{old_name} TYPE', then resume",
                )
        for renames in self._table_renames:
            for old_name, new_name in renames.unclear:
                reused_names = {old_name.lower(), new_name.lower()} & self._names.keys()
                if reused_names and self._schema.time_ms <= renames.since_ms:
                    return RenameDecision(
                        problem=f"the source has renamed column {old_name!r} to {new_name!r}, and "
                        "has given one of the names to another column at once",
                        fix="run stream-app alter TABLE --rename-column …, then resume; "
                        f"{_OTHERWISE}",
                    )
        return None

    def _problem(self, old_name: str, new_name: str) -> RenameDecision | None:
        """Return the reason why the table cannot follow a rename; None if it can."""
        reason = ""
        if self._reaction is RenameReaction.HOLD:
            reason = "and sync.renames is 'hold'"
        elif old_name in (*self._schema.primary_keys, *self._schema.partition_keys):
            reason = "and it is a column of the key, whose earlier rows may still come"
        elif old_name.lower() in self._present_names:
            reason = f"and has a new column {old_name!r}"
        elif not self._can_alias:
            reason = "and missing-columns is neither 'warn' nor 'ignore'"
        if not reason:
            return None
        return RenameDecision(
            problem=f"the source has renamed column {old_name!r} to {new_name!r}, {reason}",
            fix=f"run stream-app alter TABLE --rename-column {old_name}={new_name}, then resume; "
            f"{_OTHERWISE}",
        )
