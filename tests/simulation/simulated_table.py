"""Makes the table of a scenario."""

from __future__ import annotations

from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from tests.simulation.scenario import Scenario
from tests.simulation.world import START_MS, World


def new_table(scenario: Scenario, world: World) -> FileStoreTable:
    """The scenario's table, empty."""
    partition_keys = ("p",) if scenario.is_partitioned else ()
    schema = new_table_schema(
        columns=parse_columns("k INT, v BIGINT, p STRING, t STRING"),
        primary_keys=scenario.key,
        partition_keys=partition_keys,
        options={**scenario.options, "stream-app.row-checksum": "true"},
        time_ms=START_MS,
    )
    assert SchemaManager(world.files, "/t").create(schema)
    return FileStoreTable("/t", schema, world.files, world.clock)
