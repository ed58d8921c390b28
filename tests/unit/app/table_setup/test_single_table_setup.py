"""A job creates its table by its configuration, and names folders that it cannot create."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.opening.job_folder_access import create_local_folder
from stream_app.app.ops.doctor.observation import Severity
from stream_app.app.table_setup.single_table_setup import configured_schema, open_or_create_table
from stream_app.clock import SystemClock
from stream_app.errors import (
    NoAccessError,
    SchemaMismatchError,
    StorageError,
    UnsupportedTableError,
    UsageError,
)
from stream_app.model.traits.kind_traits import DYNAMIC_KEYED
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import with_latest_schema
from stream_app.table.opening import open_file_store_table
from tests.support.jobs.examined_job import examination_of

TEXT = """
[source]
kind = "files"
path = "in"
[table]
warehouse = "{warehouse}"
name = "t"
columns = "id BIGINT NOT NULL, v STRING"
primary-keys = ["id"]
[stream]
checkpoint = "{warehouse}/checkpoint"
"""


def conf(folder: Path, warehouse: str, *settings: str) -> AppConfig:
    (folder / "job.toml").write_text(TEXT.format(warehouse=warehouse))
    return load_config(folder / "job.toml", settings, {})


def table_of(config: AppConfig) -> FileStoreTable:
    clock = SystemClock()
    only = config.job_tables
    assert isinstance(only, SingleTable)
    return open_or_create_table(only, configured_schema(only.table, clock), clock)


def test_a_table_without_a_chosen_number_of_buckets_has_what_its_keys_need(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    unset_config = conf(tmp_path, warehouse)
    assert table_of(unset_config).kind_traits is DYNAMIC_KEYED
    assert "bucket" not in open_file_store_table(unset_config.job_tables.location).schema.options
    chosen = conf(tmp_path, warehouse + "2", "table.options.bucket=7")
    assert table_of(chosen).options.bucket == 7
    again = conf(tmp_path, warehouse + "2")
    assert table_of(again).options.bucket == 7


@pytest.mark.parametrize(
    ("warehouse", "kind", "complaint"),
    [
        ("/proc/nowhere", StorageError, "see that it and its folder exist"),
        ("{folder}/job.toml", UsageError, "a part of the path is a file"),
        ("{folder}/" + "x" * 300, NoAccessError, "give a shorter name"),
    ],
)
def test_a_folder_that_cannot_be_made_is_reported_as_a_folder(
    tmp_path: Path, warehouse: str, kind: type[Exception], complaint: str
) -> None:
    config = conf(tmp_path, warehouse.format(folder=tmp_path))
    with pytest.raises(kind, match=complaint) as caught:
        table_of(config)
    assert "free space" not in str(caught.value)


def test_a_quarantine_that_cannot_be_made_is_reported_at_start(tmp_path: Path) -> None:
    create_local_folder(str(tmp_path / "a" / "quarantine"))
    assert (tmp_path / "a" / "quarantine").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="refused") as caught:
        create_local_folder(str(tmp_path / "file" / "quarantine"))
    assert "file/quarantine" in caught.value.where


def test_the_table_alone_decides_how_rows_merge(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    key = "fields.v.aggregate-function"
    engine = "table.options.merge-engine=aggregation"
    config_with_max, unset_config, config_with_min = (
        conf(tmp_path, warehouse, engine, *more)
        for more in ([f"table.options.{key}=max"], [], [f"table.options.{key}=min"])
    )
    table_with_max = table_of(config_with_max)
    unset_table = table_of(unset_config)
    assert unset_table.schema.merge_rules.aggregates["v"].function == "max"
    with pytest.raises(SchemaMismatchError, match="is max in the table, min is conf") as raised:
        table_of(config_with_min)
    assert raised.value.fix is not None
    advised_command = shlex.split(raised.value.fix.rpartition("stream-app ")[2])
    assert main(advised_command) == 0
    assert table_of(config_with_min).schema.merge_rules.aggregates["v"].function == "min"
    # A job that runs takes what its configuration leaves to the table, and ends at a contradiction.
    assert with_latest_schema(unset_table).schema.merge_rules.aggregates["v"].function == "min"
    with pytest.raises(UnsupportedTableError, match="is min in the table, max is configured"):
        with_latest_schema(table_with_max)


def test_options_of_the_table_and_of_the_job_are_judged_together(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    schema = Path(table_of(conf(tmp_path, warehouse)).location, "schema", "schema-0")
    schema_document = json.loads(schema.read_text())
    schema_document["options"]["snapshot.num-retained.max"] = "5"  # the default of the least is 10
    del schema_document["stream_app.digest"]
    schema.write_text(json.dumps(schema_document))
    unset_config = conf(tmp_path, warehouse)
    with pytest.raises(UnsupportedTableError, match="10, is above"):
        table_of(unset_config)
    fixed_config = conf(tmp_path, warehouse, "table.options.snapshot.num-retained.min=2")
    assert table_of(fixed_config).schema.options["snapshot.num-retained.min"] == "2"
    for config, severity in ((unset_config, Severity.PROBLEM), (fixed_config, Severity.OK)):
        observations = examination_of(config, SystemClock()).observations()
        assert [
            observation.severity for observation in observations if observation.subject == "table"
        ] == [severity]


def test_a_job_warns_of_changes_that_its_table_cannot_merge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ["merge-engine=aggregation", "fields.v.aggregate-function=max"]
    settings = [f"table.options.{option}" for option in options]
    table_of(conf(tmp_path, str(tmp_path / "w"), *settings))
    assert (
        "an update or a delete fails: column 'v': the aggregate function max cannot undo"
        in caplog.text
    )
    caplog.clear()
    table_of(conf(tmp_path, str(tmp_path / "w"), *settings, "source.format=json"))
    assert "fails" not in caplog.text, "rows alone: nothing is undone"
