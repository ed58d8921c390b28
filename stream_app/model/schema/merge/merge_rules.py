"""Reads from a table's options how rows of one key are merged, column by column.

A merge engine follows `merge_rules`, after `merge_problems` has checked the options.

Source: Paimon `mergetree/compact/PartialUpdateMergeFunction.java` (`Factory`),
`mergetree/compact/aggregate/AggregateMergeFunction.java` (`Factory`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import (
    AGGREGATE_FUNCTION,
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    COUNT_LIMIT,
    DISTINCT,
    IGNORE_DELETE,
    IGNORE_RETRACT,
    LIST_AGG_DELIMITER,
    NESTED_KEY,
    NO_LIMIT,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    TS_FIELD,
)
from stream_app.model.options.option import COLUMN_PREFIX
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.traits.merge_engine import AGGREGATION, PARTIAL_UPDATE

_GROUP = ".sequence-group"
DEFAULT_FUNCTION = "fields.default-aggregate-function"
LAST_VALUE = "last_value"
LAST_NON_NULL = "last_non_null_value"
PRIMARY_KEY = "primary-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAggregate:
    """The aggregation of one column's values.

    Attributes:
        function: a name of `AGGREGATE_FUNCTIONS`.
        ignores_retract: whether -U and -D rows do not change the column
            (``fields.<column>.ignore-retract``).
        delimiter: the delimiter between texts (``fields.<column>.list-agg-delimiter``).
        is_distinct: whether each element is kept once (``fields.<column>.distinct``).
        nested_key: the key fields of the ROWs in an ARRAY (``fields.<column>.nested-key``).
        count_limit: the maximum number of elements (``fields.<column>.count-limit``).
        time_field: the time field of a MAP's ROWs (``fields.<column>.ts-field``); None: the last
            one.
        column: the column's name, for errors.
    """

    function: str
    ignores_retract: bool = False
    delimiter: str = ","
    is_distinct: bool = False
    nested_key: tuple[str, ...] = ()
    count_limit: int = NO_LIMIT
    time_field: str | None = None
    column: str = ""

    @property
    def counts_each_once(self) -> bool:
        """Whether an option prevents a counting function from counting a value twice."""
        option = AGGREGATE_FUNCTIONS[self.function].distinct_option
        return {"distinct": self.is_distinct, "nested-key": bool(self.nested_key)}.get(
            option, False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns that accept a row's values only if the row's sequence is not below the current one.

    Attributes:
        sequence: the sequence columns, the most significant first; nulls are the oldest.
        columns: the columns that follow them.
        removes_record: whether a delete in sequence removes the whole row.
    """

    sequence: tuple[str, ...]
    columns: tuple[str, ...]
    removes_record: bool = False


@dataclass(frozen=True, kw_only=True)
class MergeRules:
    """The rules of a table's merge engine, from its options.

    Attributes:
        aggregates: column → aggregation; other columns have the engine's own rule.
        groups: the sequence groups of partial-update.
        ignores_deletes: whether -U and -D rows are ignored.
        removes_on_delete: whether a delete removes the whole row.
    """

    aggregates: Mapping[str, ColumnAggregate]
    groups: tuple[SequenceGroup, ...] = ()
    ignores_deletes: bool = False
    removes_on_delete: bool = False

    @cached_property
    def group_of(self) -> Mapping[str, SequenceGroup]:
        """Column → its sequence group."""
        return {name: group for group in self.groups for name in (*group.sequence, *group.columns)}

    @property
    def counting_columns(self) -> tuple[str, ...]:
        """The columns that count a record twice if it is stored twice."""
        return tuple(
            name
            for name, aggregate in self.aggregates.items()
            if AGGREGATE_FUNCTIONS[aggregate.function].counts_repeats
            and not aggregate.counts_each_once
        )

    @property
    def accepts_retracts(self) -> bool:
        """Whether partial-update can merge rows of kind -U and -D."""
        return bool(self.groups) or self.ignores_deletes or self.removes_on_delete

    def needed_columns(self, names: Collection[str]) -> set[str]:
        """Return the columns that determine the values of `names`, or whether a row exists."""
        groups = [self.group_of[name] for name in names if name in self.group_of]
        groups += [group for group in self.groups if group.removes_record]
        return {name for group in groups for name in group.sequence}


def merge_rules(
    options: Mapping[str, str], names: Iterable[str], primary_keys: Collection[str]
) -> MergeRules:
    """Return the rules of a table whose options have no `merge_problems`.

    Args:
        names: the names of all columns.
    """
    rules_of = _OF_ENGINE.get(CoreOptions(options).merge_engine, _whole_row_rules)
    return rules_of(options, names, primary_keys)


def _whole_row_rules(
    options: Mapping[str, str], _names: Iterable[str], _primary_keys: Collection[str]
) -> MergeRules:
    return MergeRules(aggregates={}, ignores_deletes=CoreOptions(options)[IGNORE_DELETE])


def _aggregation_rules(
    options: Mapping[str, str], names: Iterable[str], primary_keys: Collection[str]
) -> MergeRules:
    core = CoreOptions(options)
    sequence_fields = core.columns(SEQUENCE_FIELD)
    return MergeRules(
        aggregates={
            name: _aggregate(
                options, name, _function_of(options, name, primary_keys, sequence_fields)
            )
            for name in names
        },
        removes_on_delete=core[AGGREGATION_REMOVE_RECORD_ON_DELETE],
    )


def _partial_update_rules(
    options: Mapping[str, str], _names: Iterable[str], primary_keys: Collection[str]
) -> MergeRules:
    """Return the rules of partial-update; only columns of a group have functions."""
    core = CoreOptions(options)
    removing_columns = set(split_names(core[PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP]))
    groups = tuple(
        SequenceGroup(
            sequence=sequence,
            columns=columns,
            removes_record=not removing_columns.isdisjoint(sequence),
        )
        for sequence, columns in sequence_groups(options)
    )
    following_columns = {name for group in groups for name in group.columns}.difference(
        primary_keys
    )
    functions = {name: configured_function(options, name) for name in sorted(following_columns)}
    return MergeRules(
        aggregates={
            name: _aggregate(options, name, function)
            for name, function in functions.items()
            if function is not None
        },
        groups=groups,
        ignores_deletes=core[IGNORE_DELETE],
        removes_on_delete=core[PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE],
    )


_OF_ENGINE: Mapping[
    str, Callable[[Mapping[str, str], Iterable[str], Collection[str]], MergeRules]
] = {PARTIAL_UPDATE: _partial_update_rules, AGGREGATION: _aggregation_rules}
"""The readers of rules for engines that merge column by column."""


def sequence_groups(
    options: Mapping[str, str],
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the sequence groups in the options: sequence columns, and those that follow them."""
    return [
        (split_names(key.removeprefix(COLUMN_PREFIX).removesuffix(_GROUP)), split_names(value))
        for key, value in options.items()
        if key.startswith(COLUMN_PREFIX) and key.endswith(_GROUP)
    ]


def configured_function(options: Mapping[str, str], name: str) -> str | None:
    """Return a column's aggregate function in the options; None if the engine's rule applies."""
    function = AGGREGATE_FUNCTION.of(name).read(options)
    return options.get(DEFAULT_FUNCTION) if function is None else function


def _function_of(
    options: Mapping[str, str],
    name: str,
    primary_keys: Collection[str],
    sequence_fields: Collection[str],
) -> str:
    if name in sequence_fields:
        return LAST_VALUE
    if name in primary_keys:
        return PRIMARY_KEY
    return configured_function(options, name) or LAST_NON_NULL


def _aggregate(options: Mapping[str, str], name: str, function: str) -> ColumnAggregate:
    core = CoreOptions(options)
    return ColumnAggregate(
        function=function,
        ignores_retract=core[IGNORE_RETRACT.of(name)],
        delimiter=core[LIST_AGG_DELIMITER.of(name)],
        is_distinct=core[DISTINCT.of(name)],
        column=name,
        nested_key=nested_key(options, name),
        count_limit=core[COUNT_LIMIT.of(name)],
        time_field=core[TS_FIELD.of(name)],
    )


def nested_key(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the fields of ``fields.<column>.nested-key``."""
    names = NESTED_KEY.of(name).read(options)
    return () if names is None else tuple(part.strip() for part in names.split(","))


def split_names(names: str) -> tuple[str, ...]:
    """Split names at their commas; an empty text has none."""
    return tuple(names.split(",")) if names else ()
