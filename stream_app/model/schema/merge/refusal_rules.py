"""Determines, from the schema, which rows a table's merge rules do not accept.

A writer refuses them before they are committed: once such a row is in the table, each read and each
compaction of its key fails. A job logs a warning when it starts, because the first such change
stops it at each start.

Source: Paimon `mergetree/compact/aggregate/FieldAggregator.java#retract`,
`mergetree/compact/PartialUpdateMergeFunction.java#retractWithSequenceGroup`,
`mergetree/compact/FirstRowMergeFunction.java`. Paimon commits these rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.merge.merge_rules import (
    LAST_NON_NULL,
    LAST_VALUE,
    MergeRules,
    merge_rules,
)
from stream_app.model.traits.merge_engine import traits_of

_NULLING_FUNCTIONS = frozenset({LAST_VALUE, LAST_NON_NULL})
"""The functions that undo a row by setting its column to null."""
RETRACTS = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRule:
    """A rule about rows that cannot be merged, and options with which they can.

    Attributes:
        kinds: the kinds of the rows.
        updates_alone: whether a -U row counts only if no row of its key follows directly, as when
            an update changes the key.
        sequence: the columns of a sequence group, of which a row with a null in all is accepted;
            empty: no row is.
    """

    kinds: frozenset[RowKind]
    problem: str
    fix: str
    updates_alone: bool = False
    sequence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetractNotice:
    """Changes that will fail, and options with which they do not."""

    problem: str
    fix: str


OF_FIRST_ROW = RefusalRule(
    kinds=RETRACTS,
    problem="merge-engine = first-row cannot take a row of kind -U or -D",
    fix="set ignore-delete = true to leave such rows out",
)
OF_PARTIAL_UPDATE = RefusalRule(
    kinds=RETRACTS,
    problem="merge-engine = partial-update cannot take a row of kind -U or -D by itself",
    fix="set ignore-delete = true to leave deletes out; or partial-update.remove-record-on-"
    "delete = true to remove the whole row; or sequence groups, whose columns a delete clears "
    "(partial-update.remove-record-on-sequence-group then removes the whole row)",
)


def refusal_rules(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> tuple[RefusalRule, ...]:
    """Return the rules about rows that a writer must not commit to a table with a key.

    The table has no problems. Rows that the options drop before writing are not among them.
    """
    core = CoreOptions(options)
    if core[IGNORE_DELETE]:
        return ()
    engine = traits_of(core.merge_engine)
    if engine.keeps_first:
        return (OF_FIRST_ROW,)
    rules = merge_rules(options, columns.names, primary_keys)
    if engine.fills_columns and not rules.accepts_retracts:
        return (OF_PARTIAL_UPDATE,)
    kinds = RETRACTS
    if core[IGNORE_UPDATE_BEFORE]:
        kinds -= {RowKind.UPDATE_BEFORE}
    if rules.removes_on_delete:
        kinds -= {RowKind.DELETE}
    if not kinds:
        return ()
    return (
        *_refused_by_functions(rules, kinds),
        *_refused_nulls(columns, primary_keys, rules, kinds),
    )


def retract_notices(refusal_rules: Iterable[RefusalRule]) -> list[RetractNotice]:
    """Return notices about changes that stop a job because of single columns.

    They are derived from the rows that the table refuses.
    """
    return [
        RetractNotice(problem=f"{changes} fails: {rule.problem}", fix=rule.fix)
        for rule in refusal_rules
        if rule not in (OF_FIRST_ROW, OF_PARTIAL_UPDATE) and (changes := _changes(rule))
    ]


def cannot_retract(function: str) -> str:
    """Return the reason why a column with this function refuses -U and -D rows."""
    return f"the aggregate function {function} cannot undo a row of kind -U or -D"


def _changes(rule: RefusalRule) -> str:
    """Return a text about the refused changes; an update counts only if any -U row is refused."""
    is_update = RowKind.UPDATE_BEFORE in rule.kinds and not rule.updates_alone
    fails_by_change = {"an update": is_update, "a delete": RowKind.DELETE in rule.kinds}
    return " or ".join(change for change, fails in fails_by_change.items() if fails)


def _refused_by_functions(rules: MergeRules, kinds: frozenset[RowKind]) -> Iterator[RefusalRule]:
    """Yield the columns whose aggregate functions cannot undo a value."""
    for name, aggregate in rules.aggregates.items():
        if aggregate.ignores_retract or AGGREGATE_FUNCTIONS[aggregate.function].accepts_retracts:
            continue
        remedies = []
        if not rules.removes_on_delete:  # the two exclude each other
            remedies += [f"fields.{name}.ignore-retract = true leaves the column as it is"]
        if RowKind.UPDATE_BEFORE in kinds:
            remedies += ["ignore-update-before = true leaves out the old rows of updates"]
        if RowKind.DELETE in kinds and not _removes_row(rules, name):
            remedies += ["ignore-delete = true leaves out both"]
        group = rules.group_of.get(name)
        yield RefusalRule(
            kinds=kinds,
            problem=f"column {name!r}: {cannot_retract(aggregate.function)}",
            fix=f"{'; '.join(remedies)}: stream-app alter TABLE --set OPTION=true",
            sequence=() if group is None else group.sequence,
        )


def _refused_nulls(
    columns: RowType,
    primary_keys: Collection[str],
    rules: MergeRules,
    sent_kinds: frozenset[RowKind],
) -> Iterator[RefusalRule]:
    """Yield the NOT NULL columns that a delete would leave without a value."""
    sequence_columns = {name for group in rules.groups for name in group.sequence}
    merged_columns = (
        rules.group_of.keys() - sequence_columns if rules.groups else rules.aggregates.keys()
    )
    for column in columns:
        name = column.name
        if name not in merged_columns or name in primary_keys or column.data_type.nullable:
            continue
        aggregate = rules.aggregates.get(name)
        kinds = sent_kinds
        if aggregate is None and _removes_row(rules, name):
            kinds -= {RowKind.DELETE}
        elif aggregate is not None and (
            aggregate.ignores_retract or aggregate.function not in _NULLING_FUNCTIONS
        ):
            continue
        if kinds:
            group = rules.group_of.get(name)
            yield RefusalRule(
                kinds=kinds,
                updates_alone=True,
                problem=f"column {name!r} is NOT NULL, and a delete leaves no value in it",
                fix=f"set ignore-delete = true; or: stream-app alter TABLE --nullable {name}",
                sequence=() if group is None else group.sequence,
            )


def _removes_row(rules: MergeRules, name: str) -> bool:
    """Return whether a delete that is not late removes the whole row."""
    group = rules.group_of.get(name)
    return group is not None and group.removes_record
