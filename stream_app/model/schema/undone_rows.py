"""Which changes of a source a table's merge rules cannot take, by its schema alone.

A job of such a table runs until the first such change comes, and then fails at it again and again.
So it warns when it starts.

Source: Paimon `mergetree/compact/aggregate/FieldAggregator.java#retract`,
`mergetree/compact/PartialUpdateMergeFunction.java#retractWithSequenceGroup`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.table_options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE
from stream_app.model.schema.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.merge_rules import (
    LAST_NON_NULL,
    LAST_VALUE,
    MergeRules,
    merge_rules,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoNotice:
    """Changes that will fail, and options with which they do not."""

    what: str
    fix: str


def undo_notices(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> list[UndoNotice]:
    """Changes that rows of a key cannot be merged with; only of a schema without problems."""
    core = CoreOptions(options)
    if core[IGNORE_DELETE] or not primary_keys:
        return []
    rules = merge_rules(options, columns.names, primary_keys)
    return [
        *_of_functions(rules, ignores_updates=core[IGNORE_UPDATE_BEFORE]),
        *_of_nulls(columns, primary_keys, rules),
    ]


def _of_functions(rules: MergeRules, *, ignores_updates: bool) -> Iterator[UndoNotice]:
    for name, how in rules.aggregates.items():
        if how.ignores_retract or AGGREGATE_FUNCTIONS[how.function].takes_back:
            continue
        changes = [
            *(() if ignores_updates else ("an update",)),
            *(() if _removes(rules, name) else ("a delete",)),
        ]
        if not changes:
            continue
        ways = []
        if not rules.removes_on_delete or rules.groups:  # else the two exclude each other
            ways += [f"fields.{name}.ignore-retract = true leaves the column as it is"]
        if "an update" in changes:
            ways += ["ignore-update-before = true leaves out the old rows of updates"]
        if "a delete" in changes:
            ways += ["ignore-delete = true leaves out both"]
        yield UndoNotice(
            what=f"{' or '.join(changes)} of a row that is there fails: {how.function} of "
            f"column {name!r} cannot undo it",
            fix=f"{'; '.join(ways)}: stream-app alter TABLE --set OPTION=true",
        )


def _of_nulls(
    columns: RowType, primary_keys: Collection[str], rules: MergeRules
) -> Iterator[UndoNotice]:
    ordering = {name for group in rules.groups for name in group.sequence}
    merged = rules.group_of.keys() - ordering if rules.groups else rules.aggregates.keys()
    for column in columns:
        name, how = column.name, rules.aggregates.get(column.name)
        is_emptied = how is None or how.function in (LAST_VALUE, LAST_NON_NULL)
        if (
            name in merged
            and name not in primary_keys
            and not column.data_type.nullable
            and is_emptied
            and not (how is not None and how.ignores_retract)
            and not _removes(rules, name)
        ):
            yield UndoNotice(
                what=f"a delete fails: it leaves no value in column {name!r}, which is NOT NULL",
                fix=f"stream-app alter TABLE --nullable {name}; or ignore-delete = true",
            )


def _removes(rules: MergeRules, name: str) -> bool:
    """Whether a delete removes the whole row."""
    group = rules.group_of.get(name)
    return rules.removes_on_delete or (group is not None and group.removes_record)
