"""Tables of a database are made of messages, each for itself, and are there after a restart."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.sync_config import TableSetting
from stream_app.app.config.table_config import TableConfig
from stream_app.app.inspect.job_status import JobStatus
from stream_app.app.table_setup.first_message_checks import warn_of_first_messages
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.cdc.change_batch import schema_of_changes
from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_state import JobStateFile, state_or_empty
from stream_app.epochs.stages.blocks import UNREADABLE_INDEX
from stream_app.errors import CheckpointError, WrongSourceError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.bucket_id import BucketId
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.source.origin import Origin
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.kinds.table_kind_registry import bucket_assigner, table_write
from stream_app.table.opening import open_file_store_table
from tests.support.databases.source_database import Database, table_of
from tests.support.messages.database_topic import HEARTBEAT, Message, change, creates
from tests.support.tables.small_table import TIME_MS, CompactHere, StandingClock


def with_bytes(message: Message, old: bytes, new: bytes) -> Message:
    key, value = message
    assert value is not None
    return key, value.replace(old, new)


def test_a_table_has_the_columns_and_the_key_of_its_messages(tmp_path: Path) -> None:
    database = Database(tmp_path, options={"bucket": "2", "changelog-producer": "input"})
    assert database.feeds(HEARTBEAT, *creates("shop.orders", range(3))) == ["orders"]
    schema = database.table("orders").schema
    assert database.columns("orders") == ["id BIGINT NOT NULL", "v STRING", "n INT"]
    assert (schema.primary_keys, schema.partition_keys) == (("id",), ())
    assert dict(schema.options) == {"bucket": "2", "changelog-producer": "input"}


def test_a_stranger_with_ten_thousand_names_makes_no_more_tables_than_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(tmp_path, max_tables=3)
    assert database.feeds(*creates("shop.orders", [1])) == ["orders"]
    strange = [change(f"shop.t{number:04}", {"id": 1}) for number in range(300)]
    for _ in range(2):
        assert database.feeds(*strange) == ["t0000", "t0001"]
    assert database.feeds(*creates("shop.orders", [2])) == ["orders"], "the job's own go on"
    assert database.feeds(*creates("eu.orders", [2])) == ["orders"], "a shard needs no table"
    [warning] = [message for message in caplog.messages if "go to quarantine" in message]
    assert "shop.t0002 and of all further source tables" in warning
    assert "sync.max-tables" in warning

    splitter = database.database_tables.splitter(database.database_tables.known_feeds())
    parts = list(splitter.split(table_of(strange).combine_chunks().to_batches()[0]))
    assert {part.table_index: part.messages.num_rows for part in parts} == {
        1: 1,
        2: 1,
        UNREADABLE_INDEX: 298,
    }
    reasons = parts[-1].messages.column("reason").unique().to_pylist()
    assert [reason.partition(";")[0] for reason in reasons] == [
        "the job has 3 tables, the most that sync.max-tables allows"
    ]
    # The next run knows its tables, and has no place for others either.
    again = Database(tmp_path, max_tables=3)
    assert len(again.database_tables.known_feeds()) == 3
    assert again.feeds(*strange[200:]) == []


def test_a_collection_of_documents_becomes_a_table(tmp_path: Path) -> None:
    database = Database(tmp_path, "debezium-bson")
    source = b'"source":{"connector":"mongodb","db":"shop","collection":"users"}'
    after = b'"after":"{\\"_id\\": {\\"$oid\\": \\"67ab25755c0d5ac87eb8c632\\"}, \\"age\\": 5}"'
    key = b'{"id":"{\\"$oid\\": \\"67ab25755c0d5ac87eb8c632\\"}"}'
    message = b'{"before":null,%b,%b,"op":"c"}' % (after, source)
    assert database.feeds(HEARTBEAT, (key, message)) == ["users"]
    assert database.columns("users") == ["_id STRING NOT NULL", "age STRING"]
    assert database.table("users").schema.primary_keys == ("_id",)


def test_shards_have_the_columns_of_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = Database(tmp_path)
    narrow = change("eu.orders", {"id": 1, "n": 5})
    assert database.feeds(narrow, *creates("us.orders", [2])) == ["orders"]
    complaint = (
        "the shards of the table orders differ: 'v' of us.orders is not a column of eu.orders"
    )
    assert [complaint] == [
        record.getMessage() for record in caplog.records if "shards" in record.msg
    ]
    # A job that starts tells it again, and each run once.
    again = Database(tmp_path)
    for _ in range(2):
        again.feeds(narrow, *creates("us.orders", [2]))
    assert [complaint] * 2 == [
        record.getMessage() for record in caplog.records if "shards" in record.msg
    ]
    assert sorted(database.columns("orders")) == ["id BIGINT NOT NULL", "n INT", "v STRING"]
    # A shard that comes later needs no table of its own.
    assert database.feeds(*creates("asia.orders", [3])) == ["orders"]


def test_a_table_that_cannot_be_made_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = {"orders.partition-keys": TableSetting(("v",))}
    database = Database(tmp_path, tables=tables, options={"bucket": "2"})
    messages = [*creates("shop.orders", range(3)), *creates("shop.items", range(2))]
    assert database.feeds(*messages) == ["items"]
    assert "partition keys must be part of the primary key" in caplog.text
    splitter = database.database_tables.splitter([])
    parts = {
        part.table_index: part.messages
        for part in splitter.split(table_of(messages).to_batches()[0])
    }
    reasons = parts[UNREADABLE_INDEX].column("reason").to_pylist()
    assert len(reasons) == 3
    assert all("the table orders cannot be created" in reason for reason in reasons)


def test_a_table_that_is_there_keeps_its_keys_and_buckets(tmp_path: Path) -> None:
    first = Database(tmp_path / "a", options={"bucket": "2"})
    first.feeds(*creates("shop.orders", [1]))
    again = Database(tmp_path / "a", options={"bucket": "9"}, primary_keys=("id", "n"))
    (tmp_path / "a" / "checkpoint" / "job_state.json").unlink()
    assert again.feeds(*creates("shop.orders", [1])) == ["orders"]
    schema = again.table("orders").schema
    assert (schema.primary_keys, schema.options["bucket"]) == (("id",), "2")


def test_a_table_that_is_there_is_judged_beside_the_jobs_options(tmp_path: Path) -> None:
    key = "snapshot.num-retained"
    first = Database(tmp_path, options={f"{key}.min": "2", f"{key}.max": "5"})
    first.feeds(*creates("shop.orders", [1]))
    (tmp_path / "checkpoint" / "job_state.json").unlink()
    assert Database(tmp_path, options={f"{key}.min": "6"}).feeds(*creates("shop.orders", [1])) == []
    fixed_database = Database(tmp_path, options={f"{key}.min": "6", f"{key}.max": "7"})
    assert fixed_database.feeds(*creates("shop.orders", [1])) == ["orders"]


def test_a_restarted_job_has_its_tables_before_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Database(tmp_path).feeds(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    again = Database(tmp_path)
    assert sorted(feed.name for feed in again.database_tables.known_feeds()) == ["items", "orders"]
    assert state_or_empty(again.checkpoint).targets == {
        Origin("shop", "", "orders"): "orders",
        Origin("shop", "", "items"): "items",
    }
    (tmp_path / "warehouse/ods.db/items").rename(tmp_path / "dropped")
    assert [feed.name for feed in Database(tmp_path).database_tables.known_feeds()] == ["orders"]
    assert "the table items was dropped" in caplog.text
    (tmp_path / "checkpoint/job_state.json").write_text("[{")
    with pytest.raises(CheckpointError, match="damaged"):
        Database(tmp_path)


def test_divided_tables_share_no_name(tmp_path: Path) -> None:
    database = Database(tmp_path, merge_shards=False)
    eu = change("shop.orders", {"id": 1})
    us = with_bytes(eu, b'"table":', b'"schema":"us","table":')
    assert database.feeds(eu, us) == ["shop_orders"]
    again = Database(tmp_path, merge_shards=False)
    again.database_tables.known_feeds()
    [(index, part, _)] = again.database_tables.splitter([]).split(table_of([us]).to_batches()[0])
    assert index == UNREADABLE_INDEX
    assert "as shop.orders does" in part.column("reason")[0].as_py()


def test_a_problem_that_will_hold_a_table_back_is_reported_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(tmp_path, primary_keys=("id", "n"))
    [message] = creates("shop.orders", [1])
    postgres = [with_bytes(message, b'"mariadb"', b'"postgresql"')]
    with caplog.at_level(logging.WARNING):
        warn_of_first_messages(database.job_tables, table_of(postgres), StandingClock())
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith("shop.orders: the row of a delete or an update will not be certain")


def test_the_status_has_the_state_of_each_table_and_its_reason(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.feeds(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    (tmp_path / "checkpoint/offsets").mkdir()
    (tmp_path / "checkpoint/metadata").write_text('{"id": "job"}')
    (tmp_path / "checkpoint/offsets/3").write_text('v1\n{}\n{"all": {"0": 90}}')
    held_table = HeldTable(
        since_epoch=2, start={"all": {"0": 40}}, reason="the disk is full", since_ms=1, retry_ms=9
    )
    missing_table = HeldTable(since_epoch=1, start={}, reason="gone", since_ms=1, retry_ms=None)
    waiting = {"items": held_table, "gone": missing_table}
    file = JobStateFile(database.checkpoint)
    file.update(replace(file.state, epoch=3, newest_epochs={"orders": 3}, held_tables=waiting))
    commit_row(database.table("orders"), epoch=3)
    status = JobStatus(
        job_tables=database.job_tables,
        checkpoint=database.checkpoint,
        ends={"all": {"0": 100}},
        now_ms=TIME_MS + 90_000,
    )
    assert [
        (row.table, row.state, row.epoch, row.snapshot, row.lag, row.sorted_runs, row.reason)
        for row in status.tables()
    ] == [
        ("gone", "held", None, None, 100, None, "gone"),
        ("items", "held", None, None, 60, None, "the disk is full"),
        ("orders", "ready", 3, 1, 10, 1, None),
    ]
    assert [table.changed_s for table in status.tables()] == [None, None, 90]


def commit_row(table: FileStoreTable, epoch: int) -> None:
    """Commit one epoch of the job in a table."""
    table = replace(table, clock=StandingClock())
    with table_write(table, next_sequence_number=0) as write:
        row = pa.RecordBatch.from_pylist(
            [{VALUE_KIND: 0, "id": 1, "v": "a", "n": 1}],
            schema=schema_of_changes(arrow_schema(table.schema.fields)),
        )
        for partition, bucket, part in bucket_assigner(table).assign(row):
            write.write(BucketId(partition, bucket), part)
        write.finish_bucket()
        changes = write.prepare_commit()
    job = TableJob(table, CompactHere)
    job.open("job")
    job.prepare_epoch()
    job.stream_commit.commit_epoch(epoch, changes)


def test_the_status_of_a_job_of_one_table(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.feeds(*creates("shop.orders", [1]))
    commit_row(database.table("orders"), epoch=3)
    table = TableConfig(warehouse=database.sync.warehouse, database="ods", name="orders")
    only = SingleTable(source=SourceConfig(), table=table)
    status = JobStatus(job_tables=only, checkpoint=database.checkpoint, ends=None, now_ms=TIME_MS)
    [before] = status.tables()
    assert (before.table, before.state, before.lag) == ("ods.orders", "empty", None)
    (tmp_path / "checkpoint/metadata").write_text('{"id": "job"}')
    [after] = status.tables()
    assert (after.state, after.epoch, after.changed_s) == ("ready", 3, 0)


def test_a_truncate_is_applied_to_the_tables_that_are_named(tmp_path: Path) -> None:
    database = Database(tmp_path, tables={"orders.truncate": TableSetting("apply")})
    feeds = database.feeds(*creates("shop.orders", [1]), *creates("shop.items", [1]))
    assert sorted(feeds) == ["items", "orders"]
    truncate_value = b'{"before":null,"after":null,"op":"t","source":{"db":"shop","table":"x"}}'
    truncate = table_of([(None, truncate_value)]).to_batches()[0]
    formats = {
        name: job_pipeline(database.job_tables, open_file_store_table(database.sync.path(name)))
        for name in ("orders", "items")
    }
    assert formats["orders"].decode(truncate).last_truncate == 0
    with pytest.raises(WrongSourceError, match="the source table was truncated"):
        formats["items"].decode(truncate)
