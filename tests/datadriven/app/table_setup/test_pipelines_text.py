"""Each caller builds its pipeline of these steps, in this order.

``steps [shards]`` takes the keys of ``[table]`` and ``[source.debezium]``. It prints one line for
the job, and one each for a replay, the later changes that a replay reads, and ``check``. With
``shards`` the table has rows of several source tables.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.table_setup.single_table_setup import configured_schema, open_or_create_table
from stream_app.app.table_setup.table_pipeline import (
    LEFT_OUT_BY_CHECK,
    LEFT_OUT_BY_REPLAY,
    LEFT_OUT_OF_LATER_CHANGES,
    job_pipeline,
)
from stream_app.cdc.pipeline import Pipeline
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE
from stream_app.clock import SystemClock
from stream_app.table.file_store_table import FileStoreTable
from tests.support.suite.datadriven import Case, run_file

_REST = """
[stream]
checkpoint = "{folder}/checkpoint"
quarantine = "{folder}/quarantine"
[source]
bootstrap-servers = "127.0.0.1:9092"
topics = ["shop"]
merge-shards = {shards}
[table]
warehouse = "{folder}/warehouse"
name = "t{number}"
{table}
"""


def test_each_caller_orders_the_steps_of_its_pipeline(tmp_path: Path) -> None:
    number = 0

    def handle(case: Case) -> str:
        nonlocal number
        number += 1
        shards = "true" if "shards" in case.args else "false"
        file = tmp_path / "job.toml"
        text = _REST.format(folder=tmp_path, shards=shards, number=number, table=case.input)
        file.write_text(text)
        config = load_config(file, [], {})
        only = config.job_tables
        assert isinstance(only, SingleTable)
        table = open_or_create_table(
            only, configured_schema(only.table, SystemClock()), SystemClock()
        )
        return "\n".join(f"{name}: {caller}" for name, caller in _callers(config, table).items())

    run_file(Path(__file__).with_name("steps.txt"), handle)


def _callers(config: AppConfig, table: FileStoreTable) -> dict[str, str]:
    source_filter = None if config.source.merge_shards else EVERY_SOURCE
    return {
        "job": _step_names(
            job_pipeline(
                config.job_tables, table, source_filter=source_filter, restores_values=True
            )
        ),
        "replay": _step_names(
            job_pipeline(config.job_tables, table, left_out_steps=LEFT_OUT_BY_REPLAY)
        ),
        "later": _step_names(
            job_pipeline(config.job_tables, table, left_out_steps=LEFT_OUT_OF_LATER_CHANGES)
        ),
        "check": _step_names(
            job_pipeline(config.job_tables, table, left_out_steps=LEFT_OUT_BY_CHECK)
        ),
    }


def _step_names(pipeline: Pipeline) -> str:
    own_step = [] if pipeline.own_message_decoder is None else ["(own table)"]
    return " ".join([*own_step, *(place.name.lower() for place in pipeline.steps)]) or "none"
