"""Our source in a real Spark reads tables as Paimon's Java reader does."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import stream_app
from stream_app.errors import UnsupportedTableError
from stream_app.model.schema.data_type import DataField, parse_data_type
from stream_app.predicate.literal import Literal, LiteralKind
from stream_app.predicate.predicate_functions import CONDITION_FUNCTIONS
from stream_app.spark.read.data_source import NAME
from stream_app.table.read.system_tables import ROW_FORMS, SYSTEM_TABLES
from stream_app.variants.json_column import variants_of
from tests.support.engines.stream_app_source import a_stream, frame, micro_batches, rows_of, source
from tests.support.interop import append_tables, changelog_tables
from tests.support.interop.written_tables import write_epochs
from tests.support.jobs.table_writer import TableWriter, by_content
from tests.support.judges.normal_rows import without_nanoseconds
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import SmallTable, small_table

__all__ = ["source"]
pytestmark = [pytest.mark.java, pytest.mark.spark, pytest.mark.usefixtures("unsynced")]


@pytest.mark.parametrize("name", ["every type", "nanoseconds", "partitions", "thin"])
def test_rows_are_those_that_java_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """The tables have one key column or several, partitions or none, and some compacted buckets."""
    location = write_epochs(tmp_path, name, seed).location
    rows = rows_of(frame(source, location), location)
    assert by_content(rows) == by_content(without_nanoseconds(paimon_java.read(location)))


def test_rows_of_append_tables_are_those_that_java_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    table = append_tables.a_table(tmp_path, "a INT, dt STRING, k BIGINT, v STRING", ("dt",))
    writer = TableWriter(table)
    for changes in append_tables.some_inserts(table, seed, (9, 9, 9)):
        writer.write(changes)
    rows = rows_of(frame(source, table.location), table.location)
    assert by_content(rows) == by_content(paimon_java.read(table.location))


def test_rows_with_blobs_are_those_that_java_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path
) -> None:
    location = str(tmp_path / "db.db" / "t")
    options = {"bucket": -1, "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    paimon_java.create(location, [("k", "INT"), ("b", "BLOB"), ("v", "STRING")], options=options)
    for first in (0, 4):
        keys = range(first, first + 4)
        rows = [{"k": k, "b": b"x" * k if k % 3 else None, "v": "v"} for k in keys]
        paimon_java.write(location, [("+I", row) for row in rows], identifier=first)
    read = frame(source, location)
    assert read.schema.simpleString() == "struct<k:int,b:binary,v:string>"
    assert by_content(rows_of(read, location)) == by_content(paimon_java.read(location))
    assert read.where("b IS NULL").count() == 3
    with pytest.raises(UnsupportedTableError, match=r"data-evolution.enabled = true"):
        micro_batches(a_stream(location))


def test_rows_of_a_table_whose_columns_have_changed(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    location = str(tmp_path / "db.db" / "t")
    paimon_java.create(
        location, [("k", "INT NOT NULL"), ("a", "INT"), ("b", "STRING")], primary_keys=("k",),
        options={"bucket": 1},
    )  # fmt: skip
    paimon_java.write(location, [("+I", {"k": 1, "a": 2, "b": "x"})], identifier=0)
    paimon_java.alter(location, ("type", "a", "BIGINT"), ("rename", "b", "c"), ("add", "d", "INT"))
    new = {"k": 2, "a": 2**40, "c": "y", "d": 3}
    paimon_java.write(location, [("+I", new)], identifier=1)
    assert by_content(rows_of(frame(source, location), location)) == by_content(
        paimon_java.read(location)
    )
    paimon_java.alter(location, ("type", "a", "STRING"), ("type", "d", "DOUBLE"))
    paimon_java.write(location, [("+I", {"k": 3, "a": "x", "c": "z", "d": 0.5})], identifier=2)
    altered_frame = frame(source, location)
    assert by_content(rows_of(altered_frame, location)) == by_content(paimon_java.read(location))
    for condition, keys in (("a = '2'", [1]), ("a > '2'", [3]), ("d >= 3", [2])):
        assert [row.k for row in altered_frame.where(condition).collect()] == keys
    first = frame(source, location, scan__snapshot_id="1")
    assert first.schema.simpleString() == "struct<k:int,a:int,b:string>"
    assert [tuple(row) for row in first.collect()] == [(1, 2, "x")]


DOCUMENTS = (
    "1", "-129", "40000", "9223372036854775807", "2.5", "-0.6", "1e3", "12.345", "true", '"x"',
    '" 7 "', '"2.5"', '"yes"', '"2026-01-02"', '"NaN"', "null", "{}", '[1, "a"]',
)  # fmt: skip
TYPES = ("STRING", "BOOLEAN", "TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(6, 2)", "DATE")


@pytest.mark.parametrize("wanted_type", TYPES)
def test_members_of_variants_are_those_that_spark_takes_out(
    spark: SparkSession, wanted_type: str
) -> None:
    documents = [f'{{"m": {document}}}' for document in DOCUMENTS]
    frame = spark.createDataFrame([(document,) for document in documents], "d STRING")
    taken = frame.selectExpr(f"try_variant_get(parse_json(d), '$.m', '{wanted_type}') m")
    spark_rows = [row["m"] for row in taken.collect()]
    variants, _ = variants_of(pa.array(documents))
    variant = DataField(field_id=0, name="d", data_type=parse_data_type("VARIANT"))
    literals = [Literal(LiteralKind.TEXT, "$.m"), Literal(LiteralKind.TEXT, wanted_type)]
    call = CONDITION_FUNCTIONS["try_variant_get"](variant, literals)
    ours = call.compute(variants, *call.literals).to_pylist()
    assert list(map(repr, ours)) == list(map(repr, spark_rows))


def test_elements_of_arrays_are_those_that_spark_contains(spark: SparkSession) -> None:
    arrays = [[1.0, 2.0], [2.0, None], [None], [], None, [math.nan], [-0.0]]
    frame = spark.createDataFrame([(array,) for array in arrays], "a ARRAY<DOUBLE>")
    column = DataField(field_id=0, name="a", data_type=parse_data_type("ARRAY<DOUBLE>"))
    for value in ("1", "2", "0", "NaN"):
        taken = frame.selectExpr(f"array_contains(a, double('{value}')) m")
        literal = Literal(LiteralKind.TEXT if value == "NaN" else LiteralKind.NUMBER, value)
        call = CONDITION_FUNCTIONS["array_contains"](column, [literal])
        ours = call.compute(pa.array(arrays, pa.list_(pa.float64())), *call.literals).to_pylist()
        assert ours == [row["m"] for row in taken.collect()], value


def test_system_tables_are_those_that_python_reads(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path
) -> None:
    location = str(tmp_path / "db.db" / "t")
    options = {"bucket": 1, "deletion-vectors.enabled": "true"}
    paimon_java.create(location, [("k", "INT NOT NULL")], primary_keys=("k",), options=options)
    for epoch in range(3):
        paimon_java.write(location, [("+I", {"k": k}) for k in range(epoch + 2)], identifier=epoch)
    paimon_java.tag(location, "one", 1)
    paimon_java.branch(location, "side", "one")
    paimon_java.collect_statistics(location)
    table = stream_app.open_table(location)
    for name in (*SYSTEM_TABLES, *ROW_FORMS):
        shown, table_rows = frame(source, f"{location}${name}"), table.system(name)
        assert shown.columns == table_rows.schema.names
        rows = shown.collect()
        assert [row[0] for row in rows] == table_rows.column(0).to_pylist(), name


@pytest.mark.variant
def test_filters_are_handed_down_in_a_session_with_that_setting(
    spark: SparkSession, source: SparkSession, tmp_path: Path
) -> None:
    """`source` hands them down; a session as it is finds the source by itself and filters."""
    table = append_tables.a_table(tmp_path, "dt STRING, k BIGINT, b STRING", ("dt",))
    rows = [("+I", {"dt": dt, "k": k, "b": "ab"[k % 2]}) for dt in "xyz" for k in range(-3, 4)]
    TableWriter(table).write(rows)
    location = table.location
    by_source, by_session = frame(source, location), frame(spark.newSession(), location)
    condition = (F.col("dt") == "y") & (F.col("k") > 0) & F.col("b").contains("a")
    filtered_frame, by_spark = by_source.where(condition), by_session.where(condition)
    content = by_content(rows_of(filtered_frame, location))
    assert len(content) == 1
    assert content == by_content(rows_of(by_spark, location))
    plans = [
        frame._jdf.queryExecution().optimizedPlan().toString()
        for frame in (filtered_frame, by_spark)
    ]
    assert ["(k#" in plan.splitlines()[0] for plan in plans] == [False, True]
    assert filtered_frame.rdd.getNumPartitions() < by_spark.rdd.getNumPartitions()


def test_a_misspelt_option_is_an_error_of_spark_with_the_known_name(
    source: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(AnalysisException, match=r"did you mean .scan\.tag-name"):
        frame(source, str(tmp_path), scan__tag_nam="a")


ALL_KINDS = {"read.changelog": "true"}
EVERY_FILE: dict[str, Any] = {"read.stream.maxFilesPerTrigger": "1", **ALL_KINDS}
FollowedRow = tuple[str, int, str]


class Query:
    """A stream whose micro-batches are kept by their numbers, as an idempotent sink does."""

    def __init__(self, source: SparkSession, location: str, checkpoint: Path) -> None:
        self._source, self._location, self._checkpoint = source, location, checkpoint
        self.batches: dict[int, list[FollowedRow]] = {}
        self.fails_at: int | None = None

    def start(self, *, whole: bool = False, **options: Any) -> StreamingQuery:
        """Run until `stop`, or with `whole` over what is there."""
        trigger: dict[str, Any] = (
            {"availableNow": True} if whole else {"processingTime": "0 seconds"}
        )
        return (
            self._source.readStream.format(NAME)
            .options(**options)
            .load(self._location)
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(**trigger)
            .start()
        )

    def rows(self) -> list[FollowedRow]:
        return [change for _, batch in sorted(self.batches.items()) for change in batch]

    def _keep(self, batch: DataFrame, number: int) -> None:
        collected_rows = batch.collect()
        if number == self.fails_at:
            raise RuntimeError("the sink is gone")
        self.batches[number] = sorted(
            (row["rowkind"], row["k"], row["v"]) for row in collected_rows
        )


def a_history(folder: Path, **options: str) -> SmallTable:
    """1 APPEND; 2 APPEND; 3 COMPACT; 4 APPEND."""
    small = small_table(
        folder / "db.db" / "t", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=2, **options,
    )  # fmt: skip
    small.commit(("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"}))
    small.commit(("-U", {"k": 2, "v": "b"}), ("+U", {"k": 2, "v": "B"}), ("+I", {"k": 3, "v": "c"}))
    small.compact()
    small.commit(("-D", {"k": 1, "v": "a"}), ("+I", {"k": 4, "v": "d"}))
    return small


@pytest.mark.parametrize("producer", ["none", "input"])
def test_streams_begin_where_java_begins(
    paimon_java: PaimonJava, tmp_path: Path, producer: str
) -> None:
    small = a_history(tmp_path, changelog_producer=producer)
    third = small.table.snapshots.snapshot(3).time_ms
    starts: dict[str, dict[str, str]] = {
        "latest-full": {},
        "latest": {},
        "compacted-full": {},
        "from-timestamp": {"scan.timestamp-millis": str(third)},
        "from-snapshot": {"scan.snapshot-id": "2"},
        "from-snapshot-full": {"scan.snapshot-id": "2"},
    }
    for mode, others in starts.items():
        options = {"scan.mode": mode, **others}
        plans = paimon_java.changelog(small.path, options=options)
        if mode.endswith("full"):
            # All rows come first; Java keeps of each by which change it came, which says nothing.
            plans[0].changes[:] = [("+I", row) for _, row in plans[0].changes]
        theirs = [(kind, row["k"], row["v"]) for plan in plans for kind, row in plan.changes]
        ours = micro_batches(a_stream(small.path, **ALL_KINDS, **options), "rowkind", "k", "v")
        assert sorted(change for batch in ours for change in batch) == sorted(theirs), mode


def test_each_change_comes_once_when_a_limited_query_fails_and_goes_on(
    source: SparkSession, tmp_path: Path
) -> None:
    small = a_history(tmp_path, changelog_producer="input")
    query = Query(source, small.path, tmp_path / "checkpoint")
    query.fails_at = 1
    options: dict[str, Any] = {**EVERY_FILE, "scan.snapshot-id": "1"}
    with pytest.raises(StreamingQueryException, match="the sink is gone"):
        query.start(**options).awaitTermination()
    assert query.rows() == [("+I", 1, "a"), ("+I", 2, "b")]
    small.commit(("+I", {"k": 5, "v": "e"}))
    query.fails_at = None
    running = query.start(**options)
    running.processAllAvailable()
    running.stop()
    assert [batch for _, batch in sorted(query.batches.items()) if batch] == [
        [("+I", 1, "a"), ("+I", 2, "b")],
        [("+I", 3, "c"), ("+U", 2, "B"), ("-U", 2, "b")],
        [("+I", 4, "d"), ("-D", 1, "a")],
        [("+I", 5, "e")],
    ]


@pytest.mark.variant
def test_a_query_that_was_stopped_too_long_gets_an_error_with_what_is_left(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path
) -> None:
    small = a_history(tmp_path)
    query = Query(source, small.path, tmp_path / "checkpoint")
    query.start(whole=True, **EVERY_FILE, **{"scan.mode": "latest-full"}).awaitTermination()
    for k in (6, 7):
        small.commit(("+I", {"k": k, "v": "f"}))
    latest = small.table.snapshots.latest_id()
    paimon_java.expire(small.path)
    with pytest.raises(StreamingQueryException) as caught:
        query.start(**EVERY_FILE).awaitTermination()
    assert f"has expired: the table has {latest} to {latest}" in str(caught.value)


@pytest.mark.parametrize("kind", ["lookup of sums", "deletion vectors"])
def test_the_audit_log_is_the_same_whether_java_wrote_or_we(
    source: SparkSession, paimon_java: PaimonJava, tmp_path: Path, kind: str
) -> None:
    """Deletes are in it that no compaction has removed; which ones depends on sizes of files."""
    shown, chance = [], random.Random(kind)
    epochs = [changelog_tables.epoch_of(chance, epoch, kind) for epoch in range(3)]
    for writer in ("java", "ours"):
        location = tmp_path / "db.db" / writer
        paimon_java.create(
            location, changelog_tables.COLUMNS, primary_keys=["k"],
            options={"bucket": 1, **changelog_tables.CASES[kind]},
        )  # fmt: skip
        table = stream_app.open_table(str(location)).table
        for epoch, changes in enumerate(epochs):
            if writer == "java":
                changelog_tables.write_java(paimon_java, location, changes, epoch)
            else:
                changelog_tables.write_ours(table, changes, epoch)
        rows = [row.asDict() for row in frame(source, f"{location}$audit_log").collect()]
        assert by_content(rows) == by_content(paimon_java.read(f"{location}$audit_log"))
        shown.append(by_content(row for row in rows if row["rowkind"] != "-D"))
    assert shown[0] == shown[1] != []
