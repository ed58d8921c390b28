"""Objects that we wrote to S3 are a table of Paimon's, byte for byte."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.opening import create_or_open
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.s3_server import S3Server
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = pytest.mark.java


def test_java_reads_the_copied_objects(
    s3: S3Server, tmp_path: Path, paimon_java: PaimonJava, seed: int
) -> None:
    schema = new_table_schema(
        columns=parse_columns("k INT, dt STRING, a STRING, t TIMESTAMP(3)"),
        primary_keys=("dt", "k"),
        partition_keys=("dt",),
        options={"bucket": "2", "num-sorted-run.compaction-trigger": "2"},
        time_ms=TIME_MS,
    )
    location = f"s3://{s3.new_bucket()}/warehouse/db.db/t"
    table = create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)
    writer = TableWriter(table)
    changes = RandomChanges(schema, random.Random(seed))
    for _ in range(4):
        writer.write(changes.epoch(100))
    writer.commit.compact_due()
    s3.copy_to(location, tmp_path / "db.db" / "t")
    read = paimon_java.read(tmp_path / "db.db" / "t")
    assert by_content(read) == by_content(writer.model.rows())
