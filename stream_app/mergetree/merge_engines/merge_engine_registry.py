"""Chooses a table's merge function by its options.

A new engine needs a module beside this one, a line below, and traits in
`model.traits.merge_engine`. An engine that merges column by column also has rules in
`model.schema.merge.merge_rules` and `merge_problems`.

Source: Paimon `table/PrimaryKeyTableUtils.java#createMergeFunctionFactory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stream_app.errors import UnsupportedTableError
from stream_app.mergetree.merge_engines.aggregates.unions import missing_package
from stream_app.mergetree.merge_engines.aggregation import Aggregation
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.merge_engines.first_row import FirstRow
from stream_app.mergetree.merge_engines.merge_function import LookupMerge, MergeFunction
from stream_app.mergetree.merge_engines.partial_update import PartialUpdate
from stream_app.model.options.merge_options import IGNORE_DELETE
from stream_app.model.schema.merge.merge_problems import unknown_rules
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.merge_engine import (
    AGGREGATION,
    DEDUPLICATE,
    FIRST_ROW,
    PARTIAL_UPDATE,
    traits_of,
)
from stream_app.version import install_command

MERGE_FUNCTIONS: Mapping[str, Callable[[TableSchema], MergeFunction]] = {
    DEDUPLICATE: lambda schema: Deduplicate(schema.core_options[IGNORE_DELETE]),
    PARTIAL_UPDATE: lambda schema: PartialUpdate(schema.merge_rules),
    AGGREGATION: lambda schema: Aggregation(schema.merge_rules),
    FIRST_ROW: lambda schema: FirstRow(schema.core_options[IGNORE_DELETE]),
}
"""The value of ``merge-engine``, in lower case → the maker of its merge function."""


def merge_function_of(schema: TableSchema) -> MergeFunction:
    """Return the function that merges the rows of one key.

    Raises:
        UnsupportedTableError: the merge engine or a column's option is unsupported, or a function's
            package is not installed.
    """
    engine = schema.core_options.merge_engine
    if engine not in MERGE_FUNCTIONS:
        raise UnsupportedTableError(
            f"stream_app cannot merge rows by merge-engine = {engine}",
            fix=f"use one of {', '.join(MERGE_FUNCTIONS)}",
        )
    if problems := unknown_rules(schema.options):
        raise UnsupportedTableError(
            f"stream_app cannot merge rows by merge-engine = {engine}: {'; '.join(problems)}",
            fix="use the table with the engine that set these options, or unset them",
        )
    functions = sorted({aggregate.function for aggregate in schema.merge_rules.aggregates.values()})
    for name in functions:
        if (package := missing_package(name)) is not None:
            raise UnsupportedTableError(
                f"the aggregate function {name} needs the package {package}, which is missing",
                fix=f"{install_command('sketches')}, on the driver and all executors",
            )
    function = MERGE_FUNCTIONS[engine](schema)
    is_lookup = schema.core_options.looks_up and not traits_of(engine).may_prune_by_value
    return LookupMerge(function) if is_lookup else function
