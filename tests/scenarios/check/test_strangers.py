"""`check` compares a table only with the records of its own source table."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.recorded_tables import source_filter_of
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.ops.source_comparison.source_replay import replay_source
from stream_app.cdc.pipeline_steps.own_message_decoder import EVERY_SOURCE
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import ONLY_TABLE, JobState, JobStateFile
from stream_app.fileio.store_registry import file_io_of
from stream_app.message_format_registry import format_named
from stream_app.table.check.source_check import SourceCheck
from tests.support.messages.debezium_messages import messages
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def insert(table: str, key: int, value: str) -> str:
    row = f'{{"k":{key},"v":"{value}"}}'
    source = f'{{"connector":"mysql","db":"d","table":"{table}"}}'
    return f'{{"op":"c","before":null,"after":{row},"source":{source}}}'


def test_a_stranger_s_row_is_not_the_table_s(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=2)
    small.commit(("+I", {"k": 1, "v": "own"}))
    checkpoint = JobFolder(*file_io_of(str(tmp_path / "c")))
    source = SourceConfig(topics=("t", "other"))
    only = SingleTable(source=source, checkpoint=str(tmp_path / "c"), table=TableConfig())
    assert source_filter_of(only) == EVERY_SOURCE
    JobStateFile(checkpoint).update(JobState(source_tables={ONLY_TABLE: {"t": ["d.orders"]}}))
    omissions = Omissions(small.table.location, format_named(source.format))
    check = SourceCheck(small.table, str(tmp_path / "scratch"))
    nameless = '{"op":"c","before":null,"after":{"k":7,"v":"x"}}'
    read = [
        messages(insert("orders", 1, "own"), insert("customers", 1, "their")),
        messages(nameless, topic="other"),
    ]
    assert replay_source(check, read, source, TableConfig(), omissions, source_filter_of(only)) == 1
    latest = small.table.snapshots.latest()
    assert latest is not None
    assert list(check.findings(latest)) == []
    count, first = omissions.bad_record_summary
    assert (count, "d.customers" in first) == (2, True), "backfill refuses, check tells"
