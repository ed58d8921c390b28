"""Reads columns that the source has renamed: values of either name go to one table column.

The option ``column-aliases`` is a list of ``NAME=COLUMN``: the name in the source, and the table's
column. The format reads both names as separate columns, and the step takes the one that a message
has. Where a message has both, the source's newer name wins.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import valid_of
from stream_app.cdc.change_batch import ChangeBatch, DecodedBatch, replace_columns
from stream_app.cdc.column_drift import COLUMN_ALIASES, Aliases, DriftKind, alias_problems
from stream_app.cdc.message_format import FormatSetup
from stream_app.errors import UsageError
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import DataField, RowType
from stream_app.model.schema.table_schema import VALUE_KIND


def with_names_of_source(setup: FormatSetup, aliases: Aliases) -> FormatSetup:
    """Return the setup of a format that reads the source's names as further columns of a table.

    Raises:
        UsageError: the aliases do not fit the table or the other options.
    """
    problems = alias_problems(aliases, setup.columns)
    problems += [
        f"{column!r} is a column of the primary key, which cannot have an alias"
        for column in aliases.values()
        if column in setup.primary_keys
    ]
    missing_option = DriftKind.MISSING.option
    if setup.options.get(missing_option, "warn") not in ("warn", "ignore"):
        problems.append(f"{COLUMN_ALIASES} needs {missing_option} = warn or ignore")
    if problems:
        raise UsageError(
            f"the column aliases are wrong: {'; '.join(problems)}",
            where=COLUMN_ALIASES,
            fix="correct them; stream-app alter renames a column of the table",
        )
    columns, fields = list(setup.columns), list(setup.arrow_schema)
    for index, column in enumerate(setup.columns):
        if column.name in aliases.values():
            columns[index] = replace(column, data_type=column.data_type.as_nullable())
            fields[index] = fields[index].with_nullable(True)
    for name, column_name in aliases.items():
        column = setup.columns.field(column_name)
        columns.append(
            DataField(field_id=column.field_id, name=name, data_type=column.data_type.as_nullable())
        )
        fields.append(setup.arrow_schema.field(column_name).with_name(name).with_nullable(True))
    # The step cannot tell a value under another name from one that was left out.
    restored_columns = setup.traits.restored_columns.difference(aliases.values())
    return replace(
        setup,
        columns=RowType(tuple(columns)),
        arrow_schema=pa.schema(fields),
        traits=replace(setup.traits, restored_columns=restored_columns),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasStep:
    """The step that moves values of alias columns, which come last, to the table's columns.

    Implements `pipeline.Step`.

    Attributes:
        schema: the schema of the rows without alias columns.
        exclusive: names that the source used before a rename. A message with such a name beside
            another name of the column is bad, because one of the two means another column.
    """

    aliases: Aliases
    schema: pa.Schema
    exclusive: frozenset[str] = frozenset()

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        rows = decoded_batch.changes.rows
        names = {*self.aliases, *self.aliases.values()}
        alias_names = defaultdict[str, list[str]](list)
        for name, column in self.aliases.items():
            alias_names[column].append(name)
        arrays = [
            pc.coalesce(*(rows.column(source) for source in (*alias_names[name], name)))
            if name in alias_names
            else rows.column(name)
            for name in self.schema.names
        ]
        reasons = {
            **self._null_reasons(arrays, decoded_batch.changes),
            **self._ambiguity_reasons(decoded_batch.changes),
        }
        renamed_batch = replace(
            decoded_batch.with_rows(replace_columns(rows, arrays, self.schema)),
            drift={
                key: sighting
                for key, sighting in decoded_batch.drift.items()
                if key[1] not in names
            },
        )
        return renamed_batch.with_bad_records(messages, reasons)

    def _ambiguity_reasons(self, changes: ChangeBatch) -> dict[int, str]:
        """Return a reason for each message with an exclusive name and another one of its column."""
        reasons: dict[int, str] = {}
        for name in self.exclusive:
            column = self.aliases[name]
            names = [
                column,
                *(alias for alias, column_name in self.aliases.items() if column_name == column),
            ]
            has_other = np.zeros(changes.rows.num_rows, np.bool_)
            for other_name in names:
                if other_name != name:
                    has_other |= valid_of(changes.rows.column(other_name))
            is_ambiguous = valid_of(changes.rows.column(name)) & has_other
            message_indices = np.unique(changes.message_indices[is_ambiguous])
            reason = f"has values under {name!r} and another name of the renamed column {column!r}"
            reasons |= dict.fromkeys(message_indices.tolist(), reason)
        return reasons

    def _null_reasons(self, arrays: list[pa.Array], changes: ChangeBatch) -> dict[int, str]:
        """Return a reason for each message that gives a NOT NULL column no value in a new row."""
        is_new = ~np.isin(
            changes.rows.column(VALUE_KIND).to_numpy(), (RowKind.DELETE, RowKind.UPDATE_BEFORE)
        )
        reasons: dict[int, str] = {}
        for column, array in zip(self.schema, arrays, strict=True):
            if not column.nullable and column.name in self.aliases.values():
                message_indices = np.unique(changes.message_indices[~valid_of(array) & is_new])
                reason = f"column {column.name!r} is NOT NULL and has no value"
                reasons |= dict.fromkeys(message_indices.tolist(), reason)
        return reasons
