"""Reports problems with the options of a merge engine.

Source: Paimon `schema/SchemaValidation.java`, `mergetree/compact/PartialUpdateMergeFunction.java`
(`Factory`), `mergetree/compact/aggregate/factory/*.java`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from stream_app.model.near_names import unknown_name
from stream_app.model.options.core_options import CoreOptions, column_option_problems
from stream_app.model.options.merge_options import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    DISTINCT,
    IGNORE_DELETE,
    IGNORE_RETRACT,
    LIST_AGG_DELIMITER,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from stream_app.model.options.option import is_on
from stream_app.model.schema.data_type import STRING_ROOTS, DataType, RowType
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.merge.merge_rules import (
    LAST_NON_NULL,
    configured_function,
    nested_key,
    sequence_groups,
    split_names,
)
from stream_app.model.traits.merge_engine import AGGREGATION, PARTIAL_UPDATE, traits_of


def merge_problems(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> list[str]:
    """Return the reasons why the options cannot merge rows of a key; empty if they can."""
    engine = CoreOptions(options).merge_engine
    # Paimon also checks this for tables without a key.
    problems = [*_keeps_first_problems(engine, options)] if traits_of(engine).keeps_first else []
    if primary_keys:
        problems += [*_row_kind_problems(columns, options), *_lookup_problems(options)]
        if engine in _OF_ENGINE:
            problems += _OF_ENGINE[engine](columns, primary_keys, options)
            problems += _unknown_functions(columns, options)
            problems += unknown_rules(options)
    return problems


def unknown_rules(options: Mapping[str, str]) -> list[str]:
    """Return column options by which another engine may merge rows differently.

    Later versions of Paimon have further options, such as ``nested-sequence-field``. Older ones had
    ``default-value``, which Paimon 1.4 ignores too.
    """
    if CoreOptions(options).merge_engine not in _OF_ENGINE:
        return []
    return column_option_problems(
        {key: text for key, text in options.items() if not key.endswith(".default-value")}
    )


def _row_kind_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    name = CoreOptions(options)[ROWKIND_FIELD]
    if name not in columns.names:
        return
    if (data_type := columns.field(name).data_type).root not in STRING_ROOTS:
        yield f"rowkind.field {name!r} is {data_type}: it holds texts such as +I, so make it STRING"


def _lookup_problems(options: Mapping[str, str]) -> Iterator[str]:
    core = CoreOptions(options)
    if core.producer.writes_on_full_compaction and core.merges_by_vectors:
        yield "changelog-producer = full-compaction does not go with deletion-vectors.enabled"


def _keeps_first_problems(engine: str, options: Mapping[str, str]) -> Iterator[str]:
    core = CoreOptions(options)
    if core[SEQUENCE_FIELD]:
        yield f"merge-engine = {engine} keeps the row that came first: leave out sequence.field"
    if core.writes_changelog and not core.producer.writes_by_lookup:
        yield (
            f"merge-engine = {engine} cannot have changelog-producer = "
            f"{core.changelog_producer}: choose none "
            "or lookup"
        )
    if core.merges_by_vectors:
        yield f"merge-engine = {engine} replaces no row: leave out deletion-vectors.enabled"


def _partial_update_problems(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Yield problems with sequence groups and aggregate functions of partial-update."""
    core = CoreOptions(options)
    yield from _option_conflicts(options)
    yield from _group_problems(columns, options)
    groups = sequence_groups(options)
    sequence_columns = {name for sequence, _ in groups for name in sequence}
    following_columns = {name for _, names in groups for name in names}
    for name in split_names(core[PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP]):
        if name not in sequence_columns:
            key = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP.key
            yield f"{key} names {name!r}, which no sequence-group is ordered by"
    for column in columns:
        name, function = column.name, configured_function(options, column.name)
        if function is None or name in sequence_columns or name in primary_keys:
            continue
        yield from _function_problems(columns, name, function, options)
        if function != LAST_NON_NULL and name not in following_columns:
            yield (
                f"column {name!r} has the aggregate function {function}, which partial-update "
                "computes only for columns of a sequence-group: put it into one"
            )


def _option_conflicts(options: Mapping[str, str]) -> Iterator[str]:
    core = CoreOptions(options)
    on_delete = PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE
    on_group = PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP
    is_set_of_key = {on_delete.key: core[on_delete], on_group.key: bool(core[on_group])}
    if core[IGNORE_DELETE]:
        for key, is_set in is_set_of_key.items():
            if is_set:
                yield f"{IGNORE_DELETE.key} and {key} exclude each other: give one of them"
    if core[on_delete] and sequence_groups(options):
        yield (
            f"{on_delete.key} and sequence-group exclude each other: "
            f"with groups give {on_group.key}"
        )


def _group_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield columns that sequence groups name and that are unknown or in several groups."""
    groups = sequence_groups(options)
    for sequence, governed_names in groups:
        yield from (
            f"the sequence-group of {', '.join(sequence)} names {name!r}, which is not a column"
            for name in (*sequence, *governed_names)
            if name not in columns.names
        )
    group_counts = Counter(
        name
        for sequence, governed_names in groups
        for name in dict.fromkeys((*sequence, *governed_names))
    )
    yield from (
        f"column {name!r} is in {count} sequence-groups: a column has one sequence"
        for name, count in group_counts.items()
        if count > 1
    )


def _aggregation_problems(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Yield problems with the aggregate functions of merge-engine = aggregation."""
    core = CoreOptions(options)
    sequence_columns = core.columns(SEQUENCE_FIELD)
    for column in columns:
        name = column.name
        key = IGNORE_RETRACT.of(name).key
        if core[AGGREGATION_REMOVE_RECORD_ON_DELETE] and is_on(options, key):
            yield (
                f"{AGGREGATION_REMOVE_RECORD_ON_DELETE.key} and {key} "
                "exclude each other: give one of them"
            )
        function = configured_function(options, name)
        if function is not None and name not in sequence_columns and name not in primary_keys:
            yield from _function_problems(columns, name, function, options)


_OF_ENGINE: Mapping[str, Callable[[RowType, Collection[str], Mapping[str, str]], Iterator[str]]] = {
    PARTIAL_UPDATE: _partial_update_problems,
    AGGREGATION: _aggregation_problems,
}
"""The check of the options of one engine alone, by engine."""


def _unknown_functions(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Report unknown aggregate functions, which Paimon looks up even for unused columns."""
    for name in columns.names:
        function = configured_function(options, name)
        if function is not None and function not in AGGREGATE_FUNCTIONS:
            yield f"aggregate function of column {name!r}: " + unknown_name(
                "function", function, AGGREGATE_FUNCTIONS
            )


def _function_problems(
    columns: RowType, name: str, function: str, options: Mapping[str, str]
) -> Iterator[str]:
    where = f"aggregate function of column {name!r}"
    if function in AGGREGATE_FUNCTIONS:  # see _unknown_functions
        data_type = columns.field(name).data_type
        traits = AGGREGATE_FUNCTIONS[function]
        if not traits.accepts(data_type):
            accepted_types = traits.accepted_types
            yield f"{where}: {function} takes {accepted_types}, and the column is {data_type}"
        elif traits.needs_rows:
            yield from _row_problems(data_type, name, function, options)
        key = DISTINCT.of(name).key
        if is_on(options, key) and not LIST_AGG_DELIMITER.of(name).read(options):
            yield f"{where}: with {key} the delimiter cannot be empty"


def _row_problems(
    data_type: DataType, name: str, function: str, options: Mapping[str, str]
) -> Iterator[str]:
    """Report problems with a function of the ROWs inside an ARRAY or MAP."""
    assert data_type.element is not None
    field_types = {field.name: field.data_type for field in data_type.element.fields}
    prefix = f"fields.{name}."
    no_field = f"which is not a field of the ROW: it has {', '.join(field_types)}"
    for nested_name in nested_key(options, name):
        if nested_name not in field_types:
            yield f"{prefix}nested-key names {nested_name!r}, {no_field}"
    if function == "nested_partial_update" and not nested_key(options, name):
        yield f"{function} of column {name!r} needs {prefix}nested-key: name fields of the ROW"
    if function != "merge_map_with_keytime":
        return
    time_field = options.get(f"{prefix}ts-field", [*field_types][-1])
    if len(field_types) < 2:
        yield f"{function} of column {name!r} needs a ROW of two fields at least"
    elif time_field not in field_types:
        yield f"{prefix}ts-field names {time_field!r}, {no_field}"
    elif field_types[time_field].root not in STRING_ROOTS:
        yield (
            f"{function} of column {name!r} compares the field {time_field!r}, which is "
            f"{field_types[time_field]}: name a field of type STRING as {prefix}ts-field"
        )
