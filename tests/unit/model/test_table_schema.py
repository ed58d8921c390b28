"""Schemas beyond what tests/datadriven/model/table_definitions.txt shows."""

from __future__ import annotations

import pytest

from stream_app.errors import UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema


def a_schema(**options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("a INT, dt STRING, b BIGINT, c STRING"),
        primary_keys=("dt", "b", "a"),
        partition_keys=("dt",),
        options={"bucket": "4"} | {key.replace("_", "-"): text for key, text in options.items()},
        time_ms=1234,
        comment="orders",
    )


def test_a_new_schema_is_the_first() -> None:
    schema = a_schema()
    assert (schema.schema_id, schema.highest_field_id, schema.time_ms) == (0, 4, 1234)
    assert schema.comment == "orders"
    assert [field.data_type.nullable for field in schema.fields] == [False, False, False, True]


def test_keys_are_in_the_order_of_the_primary_key() -> None:
    schema = a_schema()
    assert schema.trimmed_primary_keys == ("b", "a")
    assert schema.key_type.names == ("b", "a")
    assert schema.partition_type.names == ("dt",)
    assert schema.bucket_keys == ("b", "a")
    assert a_schema(bucket_key="a").bucket_keys == ("a",)
    assert schema.core_options.bucket == 4


def test_every_problem_is_in_one_error() -> None:
    with pytest.raises(UsageError) as caught:
        new_table_schema(
            columns=parse_columns("id FLOAT"),
            primary_keys=("id", "no"),
            partition_keys=(),
            options={"bucket": "0"},
            time_ms=0,
        )
    assert str(caught.value) == (
        "the table definition is wrong: primary-keys names 'no', which is not a column; "
        "primary key 'id' is FLOAT: floating point cannot be a key; "
        "option 'bucket' is 0: give a fixed number ≥ 1, such as bucket = 4, -1 for buckets as keys "
        "come, or -2 for those that a compaction gives\n"
        "  to fix: correct keys and options in the configuration"
    )
