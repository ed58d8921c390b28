"""The placement sends rows where Paimon's `GlobalIndexAssignerTest` does, and in more cases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.binary_row import deserialize_row
from stream_app.mergetree.write.fill_unchanged import REASON
from stream_app.model.bucket_id import BucketId
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, UNCHANGED
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.key_index.key_placement import KeyPlacement
from stream_app.table.key_index.placed_write import PlacedWrite
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import read_rows

pytestmark = pytest.mark.usefixtures("unsynced")
Placed = tuple[str, tuple[int, int, int], int]
"""Kind, (p, id, v) and bucket."""


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))


class Assigner:
    """The first of two shares; a bucket is full with three keys."""

    def __init__(self, folder: Path, **options: str) -> None:
        table = cross_partition_table(
            folder / "t",
            "p INT, id INT NOT NULL, v INT",
            dynamic_bucket__target_row_num="3",
            dynamic_bucket__assigner_parallelism="2",
            **options,
        )
        self.job = CrossPartitionJob(table)
        rule = index_rule(table.schema)
        assert rule is not None
        self.placement = KeyPlacement(table, rule, KeyIndexes.of_table(table, rule), 0)

    def take(self, *rows: tuple[int, int, int], kind: str = "+I") -> list[Placed]:
        return [placed_row for row in rows for placed_row in self._take(row, kind)]

    def _take(self, row: tuple[int, int, int], kind: str) -> Sequence[Placed]:
        change = self.job.rows([(kind, dict(zip(("p", "id", "v"), row, strict=True)))])
        kinds, changes = ("+I", "-U", "+U", "-D"), []
        for partition, bucket, rows in self.placement.place(0, change):
            [values] = rows.to_pylist()
            placed_values = (values["p"], values["id"], values["v"])
            assert deserialize_row(partition, self.job.table.schema.partition_type.types) == (
                values["p"],
            )
            changes.append((kinds[values["_VALUE_KIND"]], placed_values, bucket))
        return sorted(changes, key=lambda row: row[0] != "-D")

    def buckets(self, *rows: tuple[int, int, int]) -> list[int]:
        return [bucket for _, _, bucket in self.take(*rows)]


def test_a_share_fills_its_buckets(tmp_path: Path) -> None:
    assigner = Assigner(tmp_path)
    assert assigner.buckets((1, 1, 1), (1, 2, 2), (1, 3, 3)) == [0, 0, 0]
    assert assigner.buckets((1, 4, 4)) == [2]
    assert assigner.buckets((2, 5, 5)) == [0]
    assert assigner.buckets((1, 4, 4), (1, 2, 2), (1, 3, 3)) == [2, 0, 0]


@pytest.mark.parametrize(
    ("most", "buckets"),
    [
        ("3", [0, 0, 0, 2, 2, 2, 0, 0]),  # the other share has bucket 1
        ("2", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("1", [0, 0, 0, 0, 0, 0, 0, 0]),  # there is one share then
    ],
)
def test_a_partition_has_no_more_buckets_than_allowed(
    tmp_path: Path, most: str, buckets: list[int]
) -> None:
    """Paimon's engines do not bound these tables."""
    assigner = Assigner(tmp_path, dynamic_bucket__max_buckets=most)
    assert assigner.placement.rule.share_count == min(int(most), 2)
    assert assigner.buckets(*((1, key, key) for key in range(8))) == buckets


def test_an_update_moves_its_row_between_partitions(tmp_path: Path) -> None:
    assigner = Assigner(tmp_path)
    assert assigner.take((1, 1, 1), (2, 1, 2)) == [
        ("+I", (1, 1, 1), 0),
        ("-D", (1, 1, 2), 0),
        ("+I", (2, 1, 2), 0),
    ]
    assert assigner.buckets((1, 2, 2), (1, 3, 3), (1, 4, 4)) == [0, 0, 0]
    assert assigner.take((2, 4, 4)) == [("-D", (1, 4, 4), 0), ("+I", (2, 4, 4), 0)]
    assert assigner.buckets((1, 5, 5)) == [0]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_engines_that_merge_keep_a_row_in_its_older_partition(tmp_path: Path, engine: str) -> None:
    assigner = Assigner(tmp_path, merge_engine=engine)
    assert assigner.take((1, 1, 1), (2, 1, 2)) == [("+I", (1, 1, 1), 0), ("+I", (1, 1, 2), 0)]
    assert assigner.buckets((2, 2, 2), (2, 3, 3), (2, 4, 4)) == [0, 0, 0]


def test_a_retraction_goes_to_the_older_partition(tmp_path: Path) -> None:
    """Paimon 1.4 adds it there."""
    assigner = Assigner(tmp_path, merge_engine="aggregation", fields__v__aggregate_function="sum")
    assigner.take((1, 1, 5))
    assert assigner.take((2, 1, 3), kind="-U") == [("-U", (1, 1, 3), 0)]


def test_the_first_row_stays(tmp_path: Path) -> None:
    assigner = Assigner(tmp_path, merge_engine="first-row")
    assert assigner.take((1, 1, 1), (2, 1, 2)) == [("+I", (1, 1, 1), 0)]
    assert assigner.buckets((2, 2, 2), (2, 3, 3), (2, 4, 4)) == [0, 0, 0]


def test_ignored_kinds_move_nothing(tmp_path: Path) -> None:
    assigner = Assigner(tmp_path, ignore_update_before="true")
    assigner.take((1, 1, 1))
    assert assigner.take((1, 1, 1), kind="-U") == []
    assert assigner.take((2, 1, 2), kind="+U") == [("-D", (1, 1, 2), 0), ("+U", (2, 1, 2), 0)]


def test_a_row_that_leaves_a_value_out_cannot_move(tmp_path: Path) -> None:
    assigner = Assigner(tmp_path)
    assigner.take((1, 1, 1), (1, 2, 1))
    changes: list[Any] = [
        ("+U", {"p": 1, "id": 1}),
        ("+U", {"p": 2, "id": 2}),
        ("+U", {"p": 3, "id": 2, "v": 7}),
    ]
    rows = assigner.job.rows(changes)
    rows = rows.append_column(UNCHANGED, pa.array(["v", "v", None]))
    rows = rows.append_column(MESSAGE_COLUMN, pa.array([{"offset": offset} for offset in range(3)]))
    places = {
        (deserialize_row(partition, assigner.job.table.schema.partition_type.types)[0], row["id"])
        for partition, _, part in assigner.placement.place(0, rows)
        for row in part.to_pylist()
    }
    assert places == {(1, 1), (1, 2), (3, 2)}
    [refused_batch] = assigner.placement.refused_batches
    assert refused_batch.column(MESSAGE_COLUMN).to_pylist() == [{"offset": 1}]
    [reason] = refused_batch.column(REASON).to_pylist()
    assert "the row moves to another partition" in reason


def test_an_old_bucket_is_left_out_of_a_new_index(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t", cross_partition_upsert__index_ttl="1 d")
    job = CrossPartitionJob(table)
    job.write(("+I", {"id": 1, "p": "a", "v": 1}))
    table.clock.sleep(3 * 86_400)
    job.write(("+I", {"id": 2, "p": "b", "v": 1}))
    job.write(("+U", {"id": 1, "p": "b", "v": 2}), ("+U", {"id": 2, "p": "c", "v": 2}))
    rows = sorted((row["id"], row["p"]) for row in read_rows(table))
    assert rows == [(1, "a"), (1, "b"), (2, "c")]
    assert FileStoreScan(table).live(table.snapshots.latest())


def test_parts_of_a_share_are_written_in_their_order(tmp_path: Path) -> None:
    """The next part finds the rows that one part moves, with the values that it omits."""
    table = cross_partition_table(tmp_path / "t", dynamic_bucket__assigner_parallelism="1")
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": 1}) for key in range(3)))
    rule = index_rule(table.schema)
    assert rule is not None
    first = job.commit.follow_and_wait()
    write = PlacedWrite(
        table,
        KEYED_KIND.make_bucket_writer,
        KeyIndexes.of_table(table, rule),
        next_sequence_number=first,
        snapshot_id=1,
        part_size=1,
    )
    parts = [
        job.rows([("+U", {"id": 0, "p": "b", "v": 2}), ("+U", {"id": 1, "p": "a", "v": 2})]),
        job.rows([("+U", {"id": 0, "p": "c", "v": 3}), ("-D", {"id": 2, "p": None})]),
        _leaving_out(job.rows([("+U", {"id": 1, "p": "a"}), ("+U", {"id": 0, "p": "c"})])),
        job.rows([("+U", {"id": 2, "p": "b", "v": 4})]),
    ]
    with write:
        for part in parts:
            write.write(BucketId(b"", 0), part)
        job.publish(write.prepare_commit())
    assert write.refused_batches == []
    rows = sorted((row["id"], row["p"], row["v"]) for row in read_rows(table))
    assert rows == [(0, "c", 3), (1, "a", 2), (2, "b", 4)]


def _leaving_out(rows: pa.RecordBatch) -> pa.RecordBatch:
    rows = rows.append_column(UNCHANGED, pa.array(["v"] * rows.num_rows))
    return rows.append_column(
        MESSAGE_COLUMN, pa.array([{"offset": offset} for offset in range(rows.num_rows)])
    )
