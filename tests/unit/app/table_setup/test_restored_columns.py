"""The writer restores unchanged values from older rows in these columns of a table."""

from __future__ import annotations

import pytest

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.table_setup.format_setup import format_setup, restored_columns
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema

COLUMNS = "id BIGINT, dt STRING, body STRING, title STRING, short STRING"


def a_schema(keys: tuple[str, ...] = ("id", "dt"), **options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=keys,
        partition_keys=("dt",),
        options={"bucket": "1" if keys else "-1", **options},
        time_ms=0,
    )


def test_keys_and_partitions_are_not_restored() -> None:
    assert restored_columns(a_schema()) == {"body", "title", "short"}


def test_columns_that_conditions_read_are_not_restored() -> None:
    """Filters and expectations judge a row before the value is known."""
    conditions = ["title = 'x' and id > 3"]
    assert restored_columns(a_schema(), conditions) == {"body", "short"}


def test_columns_that_others_are_computed_from_are_not_restored() -> None:
    table = TableConfig(computed_columns=("short=substring(body,0,3)",))
    setup = format_setup(SourceConfig(), table, a_schema(), restores_values=True)
    assert setup.traits.restored_columns == {"title"}


@pytest.mark.parametrize(
    "schema",
    [
        a_schema(()),
        a_schema(("id", "dt"), **{"sequence.field": "title"}),
        a_schema(("id", "dt"), **{"merge-engine": "partial-update"}),
    ],
    ids=["no key", "sequence field", "another engine"],
)
def test_tables_with_an_uncertain_older_row_restore_nothing(schema: TableSchema) -> None:
    assert restored_columns(schema) == frozenset()


def test_writers_without_lookups_restore_nothing() -> None:
    assert (
        format_setup(SourceConfig(), TableConfig(), a_schema()).traits.restored_columns
        == frozenset()
    )
