"""The same code writes, compacts and reads a table on S3 and one on a local disk."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import pytest

import stream_app
from stream_app.errors import CheckpointError, StorageError, TableNotFoundError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.opening import create_or_open, open_file_store_table, require_writable
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import (
    CompactInThreads,
    TableWriter,
    assert_table_is,
    by_content,
    read_rows,
)
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import TIME_MS, SteppingClock
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def a_schema(columns: str, keys: tuple[str, ...], **options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(columns),
        primary_keys=keys,
        partition_keys=("dt",),
        options=options,
        time_ms=TIME_MS,
    )


KEYED = a_schema(
    "k INT, dt STRING, a STRING, n DECIMAL(20,2)",
    ("dt", "k"),
    **{
        "bucket": "2",
        "changelog-producer": "input",
        "num-sorted-run.compaction-trigger": "3",
        "target-file-size": "64 kb",
    },
)
APPENDED = a_schema("k INT, dt STRING, a STRING", (), **{"bucket": "-1", "ignore-delete": "true"})


@pytest.mark.parametrize(
    "schema",
    [KEYED, pytest.param(APPENDED, marks=pytest.mark.variant)],
    ids=["keyed", "appended"],
)
def test_a_table_is_the_same_on_s3_and_on_a_disk(
    s3: S3Server, tmp_path: Path, seed: int, schema: TableSchema
) -> None:
    location = f"s3://{s3.new_bucket()}/warehouse/db.db/t"
    writers = [
        TableWriter(create_or_open(place, schema, SteppingClock(), file_io_options=s3.options))
        for place in (location, str(tmp_path / "t"))
    ]
    for writer in writers:
        changes = RandomChanges(schema, random.Random(seed), deletes=bool(schema.primary_keys))
        for number in range(5):
            writer.write(changes.epoch(0 if number == 2 else 100))
            if number == 3:
                writer.commit.compact_due()
                writer.restart()
        writer.commit.compact_due()
    on_s3, on_disk = writers
    assert on_s3.model.changes == on_disk.model.changes
    if schema.primary_keys:
        for writer in writers:
            assert_table_is(writer)
    opened_table = stream_app.open_table(location, file_io_options=s3.options)
    assert by_content(opened_table.read().read_all().to_pylist()) == by_content(
        stream_app.open_table(tmp_path / "t").read().read_all().to_pylist()
    )
    # What was written, when, and how it was compacted.
    logs = [
        [
            (snapshot.commit_kind, snapshot.commit_identifier, snapshot.delta_record_count)
            for snapshot in check_chain(writer.table)
        ]
        for writer in writers
    ]
    assert logs[0] == logs[1]
    assert (CommitKind.COMPACT in [kind for kind, _, _ in logs[0]]) or not schema.primary_keys


def test_several_threads_compact_on_s3(s3: S3Server, seed: int) -> None:
    location = f"s3://{s3.new_bucket()}/t"
    table = create_or_open(location, KEYED, SteppingClock(), file_io_options=s3.options)
    writer = TableWriter(table, CompactInThreads)
    changes = RandomChanges(table.schema, random.Random(seed))
    for _ in range(4):
        writer.write(changes.epoch(100))
    writer.commit.compact_due()
    assert_table_is(writer)
    # As a task gets it.
    assert by_content(read_rows(pickle.loads(pickle.dumps(writer.table)))) == by_content(
        writer.model.rows()
    )


def test_keys_come_from_awss_variables(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    location = f"s3a://{s3.new_bucket()}/t"
    create_or_open(location, KEYED, file_io_options=s3.options)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    table = stream_app.open_table(location)
    assert table.location == location
    assert table.schema.names == ["k", "dt", "a", "n"]
    shown = repr(table) + str(table.table)
    assert ACCESS_KEY not in shown
    assert SECRET_KEY not in shown


def test_problems_of_a_store_are_errors_when_a_table_is_opened(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    bucket = s3.new_bucket()
    with pytest.raises(TableNotFoundError):
        open_file_store_table(f"s3://{bucket}/none", file_io_options=s3.options)
    closed_options = s3.options | {"s3.endpoint": "http://127.0.0.1:9"}
    with pytest.raises(StorageError, match=r"refused(?s:.*)s3://(?s:.*)s3.endpoint"):
        open_file_store_table(f"s3://{bucket}/t", file_io_options=closed_options)
    with pytest.raises(UsageError, match=r"did you mean 's3\.endpoint'"):
        open_file_store_table(f"s3://{bucket}/t", file_io_options={"s3.endpiont": "x"})
    for location in ("s3://", f"s3://{bucket}", f"s3://{bucket}/"):
        with pytest.raises(UsageError, match="names no folder of a bucket"):
            open_file_store_table(location)
    with pytest.raises(UsageError, match="Google Cloud Storage"):
        open_file_store_table("gs://bucket/t")


def test_a_table_is_not_made_or_written_where_races_have_two_winners(s3: S3Server) -> None:
    bucket = s3.new_bucket()
    table = create_or_open(f"s3://{bucket}/made", KEYED, file_io_options=s3.options)
    s3.ignores_conditions = True
    with pytest.raises(StorageError, match="does not write to this file system"):
        create_or_open(f"s3://{bucket}/new", KEYED, file_io_options=s3.options)
    assert [entry.name for entry in table.file_io.list_status(f"s3://{bucket}")] == ["made"]
    with pytest.raises(StorageError, match="does not write to this file system"):
        require_writable(table)
    assert open_file_store_table(table.location, file_io_options=s3.options).schema == KEYED


def test_a_put_that_is_late(s3: S3Server) -> None:
    """The request that takes number 4 arrives when others have been there, and expired it."""
    schema = new_table_schema(
        columns=parse_columns("k INT, v STRING"), primary_keys=("k",), partition_keys=(),
        options={"bucket": "1"}, time_ms=TIME_MS,
    )  # fmt: skip
    location = f"s3://{s3.new_bucket()}/db.db/t"
    table = create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)
    other_writer = TableWriter(replace(table), user="other")
    writer = TableWriter(table, user="late")
    for key in range(3):
        writer.write([("+I", {"k": key, "v": "a"})])

    def held_up(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/snapshot-4"):
            s3.before = None
            for _ in range(4):
                other_writer.write([])
            expiry = ExpireSnapshots(other_writer.table)
            expiry.execute(expiry.plan(expire_config(table.options, num_max=1, num_min=1)))

    s3.before = held_up
    with pytest.raises(CheckpointError, match="for snapshot 4 came too late"):
        writer.write([("+I", {"k": 3, "v": "a"})])
    assert table.snapshots.ids() == [7]
    assert table.snapshots.hints() == (7, 7)
    writer.replay()
    assert [row["k"] for row in read_rows(table)] == [0, 1, 2, 3]
