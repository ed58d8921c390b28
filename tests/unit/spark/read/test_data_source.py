"""The Spark source plans or refuses reads when its methods are called without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.types import IntegerType, LongType, StructType

from stream_app.errors import CheckpointError, StreamAppError, TableNotFoundError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.spark.read.data_source import BatchReader
from stream_app.table.opening import create_or_open
from stream_app.table.read.system_tables import ROW_FORMS, SYSTEM_TABLES
from stream_app.table.upkeep.rollback import plan_rollback, roll_back, rollback_target
from stream_app.table.versions.time_travel import Version
from tests.support.engines.stream_app_source import (
    a_reader,
    a_source,
    a_stream,
    micro_batches,
    values,
)
from tests.support.servers.s3_server import S3Server
from tests.support.tables.small_table import TIME_MS, SmallTable, StandingClock, SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")
filters = pytest.mark.skipif(
    not hasattr(datasource, "Filter"), reason="Spark 4.0 hands no filters down"
)


def a_table(folder: Path, *keys: str, **options: str) -> SmallTable:
    schema = new_table_schema(
        columns=parse_columns("dt STRING, k INT, v STRING, at TIME(3), ts TIMESTAMP(9)"),
        primary_keys=keys,
        partition_keys=("dt",),
        options=options,
        time_ms=TIME_MS,
    )
    return SmallTable(create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock()))


def row(k: int, v: str, day: str = "a") -> dict[str, Any]:
    return {"dt": day, "k": k, "v": v, "at": None, "ts": None}


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    """Three snapshots; the first two share key 1, the third has another partition."""
    small = a_table(tmp_path, "dt", "k", bucket="1")
    small.commit(("+I", row(1, "x")), ("+I", row(2, "y")))
    small.commit(("+U", row(1, "z")), ("-D", row(2, "y")))
    small.commit(("+I", row(3, "w", day="b")))
    return small


def read(reader: BatchReader) -> list[dict[str, Any]]:
    """Each part read by a copy of the reader, as in a task."""
    in_task = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    return [row for part in parts for batch in in_task.read(part) for row in batch.to_pylist()]


def test_columns_are_those_of_paimons_connector(table: SmallTable) -> None:
    assert a_source(table.path).schema().simpleString() == (
        "struct<dt:string,k:int,v:string,at:int,ts:timestamp_ntz>"
    )
    nullable = {field.name: field.nullable for field in a_source(table.path).schema()}
    assert nullable == {"dt": False, "k": False, "v": True, "at": True, "ts": True}


def test_times_are_milliseconds_and_nanoseconds_are_cut_downwards(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    early = pa.scalar(-1, pa.int64()).cast(pa.timestamp("ns")).value
    table.commit(
        ("+I", {"dt": "a", "k": 1, "v": "", "at": None, "ts": pa.scalar(early, pa.timestamp("ns"))})
    )
    (row,) = read(a_reader(table.path))
    assert row["ts"].isoformat() == "1969-12-31T23:59:59.999999"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("a", 1, "z"), ("b", 3, "w")]),
        ({"scan__snapshot_id": "1"}, [("a", 1, "x"), ("a", 2, "y")]),
        ({"scan__mode": "compacted-full"}, [("a", 1, "z"), ("b", 3, "w")]),
        ({"incremental_between": "1,3"}, [("a", 1, "z"), ("b", 3, "w")]),
        ({"incremental_between": "3,3"}, []),
    ],
)
def test_versions_and_changes(
    table: SmallTable, options: dict[str, str], expected: list[tuple[Any, ...]]
) -> None:
    assert values(read(a_reader(table.path, **options)), "dt", "k", "v") == expected


def test_row_kinds_are_a_column_on_request(table: SmallTable) -> None:
    options = {"incremental_between": "1,2", "read__changelog": "true"}
    reader = a_reader(table.path, **options)
    assert reader.columns[0] == "rowkind"
    assert values(read(reader), "rowkind", "k") == [("+U", 1), ("-D", 2)]
    audit = values(read(a_reader(f"{table.path}$audit_log")), "rowkind", "k")
    assert audit == [("+I", 3), ("+U", 1), ("-D", 2)]


def test_system_tables(table: SmallTable) -> None:
    snapshots = values(read(a_reader(f"{table.path}$snapshots")), "snapshot_id", "commit_kind")
    assert snapshots == [(1, "APPEND"), (2, "APPEND"), (3, "APPEND")]
    files = read(a_reader(f"{table.path}$files", scan__snapshot_id="1"))
    assert values(files, "partition", "record_count") == [("{a}", 2)]
    for name in (*SYSTEM_TABLES, *ROW_FORMS):
        shown = a_source(f"{table.path}${name}").schema()
        assert read(a_reader(f"{table.path}${name}")) is not None
        assert shown.names == a_reader(f"{table.path}${name}").columns, name
    binlog_rows = read(a_reader(f"{table.path}$binlog"))
    assert values(binlog_rows, "rowkind", "k") == [("+I", [3]), ("+U", [1]), ("-D", [2])]
    assert read(a_reader(f"{table.path}$ro")) == []


def test_only_the_wanted_columns_are_read(table: SmallTable) -> None:
    narrow_reader = a_reader(table.path, read__columns="v, k")
    batches = narrow_reader.read(narrow_reader.partitions()[0])
    assert [batch.schema.names for batch in batches] == [["v", "k"]]
    reader = a_source(table.path).reader(StructType().add("k", IntegerType()))
    assert values(read(reader), "k") == [(1,), (3,)]


def test_the_table_can_be_empty(tmp_path: Path) -> None:
    reader = a_reader(a_table(tmp_path, "dt", "k", bucket="1").path)
    assert reader.partitions() == []
    # Spark has a source without parts read this one.
    assert list(reader.read(None)) == []


@filters
def test_filters_leave_partitions_and_files_unread(table: SmallTable) -> None:
    reader = a_reader(table.path)
    assert len(reader.partitions()) == 2
    of_partition = datasource.EqualTo(("dt",), "b")
    of_text = datasource.StringContains(("v",), "w")
    assert reader.pushFilters([of_partition, of_text]) == [of_text]
    assert len(reader.partitions()) == 1
    assert values(read(reader), "k") == [(3,)]


@filters
def test_system_tables_leave_filters_to_spark(table: SmallTable) -> None:
    pushed_filter = datasource.EqualTo(("k",), 1)
    assert a_reader(f"{table.path}$snapshots").pushFilters([pushed_filter]) == [pushed_filter]


@filters
def test_spark_takes_the_reader_also_when_it_hands_no_filters_down(table: SmallTable) -> None:
    """Spark would refuse a reader that overrides the method, so that no filter gets lost."""
    inherited_method = datasource.DataSourceReader.pushFilters
    assert a_reader(table.path).pushFilters.__func__ is inherited_method


def test_where_spark_knows_no_filters_all_rows_are_read(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.0 has neither the method nor the classes of filters."""
    monkeypatch.delattr(datasource.DataSourceReader, "pushFilters", raising=False)
    monkeypatch.delattr(datasource, "Filter", raising=False)
    assert values(read(a_reader(table.path)), "k") == [(1,), (3,)]


def test_the_latest_version_is_found_out_by_each_read(table: SmallTable) -> None:
    reader = a_reader(table.path)
    table.commit(("+I", row(4, "new")))
    assert ("new",) in values(read(reader), "v")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("", {}, "path is missing"),
        ("{t}$snapshot", {}, "unknown system table 'snapshot'; did you mean 'snapshots'?"),
        ("{t}", {"scan__snapshotid": "1"}, "did you mean 'scan.snapshot-id'?"),
        ("{t}", {"read__columns": "k,w"}, "unknown column 'w'"),
        ("{t}", {"scan__mode": "from-file-creation-time"}, "is not supported"),
        ("{t}", {"scan__snapshot_id": "9"}, "snapshot 9 does not exist: the table has 1 to 3"),
        ("{t}", {"incremental_between": "a,b"}, "unknown tag 'a'"),
        ("{t}$files", {"incremental_between": "1,2"}, "has no range of versions"),
        ("{t}$files", {"read__protect": "1 h"}, "this read has no single"),
        ("{t}", {"read__protect": "1 h", "incremental_between": "1,2"}, "this read has no single"),
        ("{t}", {"s3__secret-key": "hush"}, "set AWS_ACCESS_KEY_ID"),
        ("db.t", {"catalog__token": "hush"}, "write the catalog into"),
        ("db.t", {"catalog__header__x-key": "hush"}, "write the catalog into"),
    ],
)
def test_errors_of_a_read_name_the_option(
    table: SmallTable, path: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        a_reader(path.replace("{t}", table.path), **options).partitions()
    assert message in str(caught.value)
    assert caught.value.fix


def test_a_table_on_s3_whose_keys_come_from_the_environment(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = f"s3://{s3.new_bucket()}/db.db/t"
    schema = new_table_schema(
        columns=parse_columns("k INT, v STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1"},
        time_ms=TIME_MS,
    )
    store = create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)
    SmallTable(store).commit(("+I", {"k": 1, "v": "x"}))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.options["s3.access-key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["s3.secret-key"])
    source = a_source(location, **{"s3__endpoint": s3.endpoint, "s3__path__style__access": "true"})
    assert read(source.reader(source.schema())) == [{"k": 1, "v": "x"}]


def test_a_missing_table_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        a_source(str(tmp_path))


def test_a_schema_that_does_not_fit_is_refused(table: SmallTable) -> None:
    with pytest.raises(UsageError, match="column 'k' is int, not bigint"):
        a_source(table.path).reader(StructType().add("k", LongType()))


def test_a_stream_begins_with_all_rows_and_goes_on_with_changes(table: SmallTable) -> None:
    stream = a_stream(table.path, read__changelog="true")
    assert micro_batches(stream, "rowkind", "k", "v") == [[("+I", 1, "z"), ("+I", 3, "w")]]
    table.commit(("+U", row(1, "q")), ("-D", row(3, "w", day="b")))
    assert micro_batches(stream, "rowkind", "k", "v") == [[("+U", 1, "q"), ("-D", 3, "w")]]


def test_without_row_kinds_only_added_rows_come(table: SmallTable) -> None:
    stream = a_stream(table.path, scan__snapshot_id="2")
    assert micro_batches(stream, "k", "v") == [[(1, "z"), (3, "w")]]


@pytest.mark.parametrize(
    "of_table",
    [
        {"scan.mode": "latest"},
        {"scan.timestamp-millis": str(TIME_MS + 10**9)},
        {"scan.mode": "from-timestamp", "scan.timestamp": "2100-01-01"},
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"},
    ],
)
def test_a_readers_own_begin_of_a_stream_comes_first(
    tmp_path: Path, of_table: dict[str, str]
) -> None:
    table = a_table(tmp_path, **of_table)
    table.commit(("+I", row(1, "x")))
    assert micro_batches(a_stream(table.path), "k") == []
    for options in (
        {"scan.snapshot-id": "1"},
        {"scan.timestamp-millis": "0"},
        {"scan.mode": "full"},
    ):
        assert micro_batches(a_stream(table.path, **options), "k") == [[(1,)]], options


def test_micro_batches_are_limited(table: SmallTable) -> None:
    options = {"read.stream.maxFilesPerTrigger": "1", "scan.snapshot-id": "1"}
    stream = a_stream(table.path, **options)
    assert micro_batches(stream, "k", "v") == [[(1, "x"), (2, "y")], [(1, "z")], [(3, "w")]]


def test_a_micro_batch_waits_for_rows_but_not_for_ever(table: SmallTable) -> None:
    options = {
        "read.stream.minRowsPerTrigger": "2",
        "read.stream.maxTriggerDelayMs": "60000",
        "scan.mode": "latest",
    }
    clock = StandingClock()
    stream = a_stream(table.path, clock, **options)
    assert micro_batches(stream, "k", "v") == []
    table.commit(("+I", row(4, "a")))
    assert micro_batches(stream, "k", "v") == [[(4, "a")]], (
        "the first one has nothing to wait since"
    )
    table.commit(("+I", row(5, "a")))
    assert micro_batches(stream, "k", "v") == []
    table.commit(("+I", row(6, "a")))
    assert micro_batches(stream, "k", "v") == [[(5, "a"), (6, "a")]]
    table.commit(("+I", row(7, "a")))
    clock.sleep(61)
    assert micro_batches(stream, "k", "v") == [[(7, "a")]]


def test_after_a_restart_a_stream_goes_on(table: SmallTable) -> None:
    first = a_stream(table.path)
    start = first.initialOffset()
    end = first.latestOffset()
    table.commit(("+I", row(4, "a")))
    again = a_stream(table.path)
    # Spark tells the last offset so, and then has the micro-batch that was not finished done again.
    assert again.partitions(end, end) == []
    assert len(again.partitions(start, end)) == 2
    assert micro_batches(again, "k", "v") == [[(4, "a")]]


def test_another_table_in_the_place_of_the_first_is_found_out(
    table: SmallTable, tmp_path: Path
) -> None:
    offset = a_stream(table.path).initialOffset()
    other_table = a_table(tmp_path / "other", "dt", "k", bucket="1", **{"file.format": "parquet"})
    with pytest.raises(CheckpointError, match="an earlier table at this path"):
        a_stream(other_table.path).partitions(offset, offset)


def test_a_table_that_was_rolled_back_and_written_again_is_found_out(table: SmallTable) -> None:
    offset = a_stream(table.path).latestOffset()
    target = rollback_target(table.table, Version(snapshot=1))
    roll_back(table.table, plan_rollback(table.table, target), resets_consumers=False)
    writer = SmallTable(table.table)
    for number in range(3):
        writer.commit(("+I", row(number, "again")))
    with pytest.raises(CheckpointError, match="rolled back"):
        a_stream(table.path).partitions(offset, offset)


def test_a_consumer_keeps_what_is_not_read_yet_from_expiry(table: SmallTable) -> None:
    stream = a_stream(table.path, consumer_id="spark")
    offset = stream.latestOffset()
    stream.commit(offset)
    assert table.table.consumers.next_snapshot_id("spark") == 4
    table.commit(("+I", row(4, "a")))
    assert micro_batches(a_stream(table.path, consumer_id="spark"), "k", "v") == [[(4, "a")]]


def test_a_consumer_whose_next_snapshot_has_expired_gets_an_error_with_the_way_to_begin_anew(
    table: SmallTable,
) -> None:
    table.table.consumers.reset("spark", 1)
    table.table.snapshots.delete(1)
    with pytest.raises(UsageError, match="continues at snapshot 1, which has expired") as caught:
        a_stream(table.path, consumer_id="spark").latestOffset()
    assert "consumer.ignore-progress" in caught.value.fix
    options = {"consumer.ignore-progress": "true", "scan.snapshot-id": "1"}
    rows = micro_batches(a_stream(table.path, consumer_id="spark", **options), "k", "v")
    assert rows == [[(1, "z"), (3, "w")]]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("{t}$files", {}, "cannot be followed"),
        ("{t}", {"scan__tag_name": "a"}, "is for batch reads"),
        ("{t}", {"read__protect": "1 h"}, "is for batch reads"),
        ("{t}", {"incremental_between": "1,2"}, "is for batch reads"),
    ],
)
def test_the_source_refuses_tables_that_it_cannot_follow(
    table: SmallTable, path: str, options: dict[str, str], message: str
) -> None:
    source = a_source(path.replace("{t}", table.path), **options)
    with pytest.raises(StreamAppError, match=message):
        source.streamReader(StructType([]))
