"""The registry finds merge engines by their names in the options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.errors import UnsupportedTableError
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import AGGREGATES
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.merge_engines.first_row import FirstRow
from stream_app.mergetree.merge_engines.merge_engine_registry import (
    MERGE_FUNCTIONS,
    merge_function_of,
)
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merge_engines.partial_update import PartialUpdate
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.merge.aggregate_function import AGGREGATE_FUNCTIONS
from stream_app.model.schema.merge.merge_rules import MergeRules
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.traits.merge_engine import MERGE_ENGINES, traits_of


def a_schema(**options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("k INT NOT NULL, v INT"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **{key.replace("_", "-"): text for key, text in options.items()}},
        time_ms=0,
    )


def test_each_function_has_traits_and_a_function() -> None:
    assert AGGREGATES.keys() == AGGREGATE_FUNCTIONS.keys()


def test_each_engine_has_traits_and_a_function() -> None:
    assert MERGE_FUNCTIONS.keys() == MERGE_ENGINES.keys()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Deduplicate()),
        ({"merge_engine": "DEDUPLICATE"}, Deduplicate()),
        ({"ignore_delete": "true"}, Deduplicate(ignores_deletes=True)),
        ({"merge_engine": "first-row"}, FirstRow()),
        (
            {"merge_engine": "partial-update", "ignore_delete": "true"},
            PartialUpdate(MergeRules(aggregates={}, ignores_deletes=True)),
        ),
    ],
)
def test_the_options_choose_the_merge_function(
    options: dict[str, str], expected: MergeFunction
) -> None:
    assert merge_function_of(a_schema(**options)) == expected


def test_rows_are_never_merged_by_a_wrong_engine() -> None:
    schema = replace(a_schema(), options={"merge-engine": "newest"})
    with pytest.raises(UnsupportedTableError, match="cannot merge rows by merge-engine = newest"):
        merge_function_of(schema)
    assert not traits_of(schema.core_options.merge_engine).may_prune_by_value


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_rows_are_never_merged_beside_an_option_of_a_later_paimon(engine: str) -> None:
    of_later = {"merge-engine": engine, "fields.v.nested-sequence-field": "ts"}
    with pytest.raises(UnsupportedTableError, match="nested-sequence-field"):
        merge_function_of(replace(a_schema(), options=of_later))
    merge_function_of(replace(a_schema(), options={**of_later, "merge-engine": "deduplicate"}))
    merge_function_of(a_schema(**{"merge-engine": engine, "fields.v.default-value": "6"}))
