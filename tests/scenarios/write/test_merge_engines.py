"""Writers, readers, followers and checks handle tables of the other merge engines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.app.cli.main import main
from stream_app.errors import MergeError, UnsupportedTableError, UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.mergetree.merged_section import merged_section
from stream_app.mergetree.sorted_run import SortedRun
from stream_app.model.bucket_id import BucketId
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.check.changelog_replay import plan_changelog_replay
from stream_app.table.kinds.table_kind_registry import table_write
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.tables.small_table import Change, SmallTable, small_table

GROUPS = "k INT, a INT, g INT, b INT"
BY_GROUPS = {"merge-engine": "partial-update", "fields.g.sequence-group": "b"}


def a_table(folder: Path, columns: str, **options: str) -> SmallTable:
    return small_table(folder / "t", columns, ("k",), **options)


def rows(small: SmallTable, **options: object) -> list[Row]:
    return normal_rows(PaimonTable(small.table).read(**options).read_all())  # type: ignore[arg-type]


def test_a_delete_that_cannot_be_merged_is_not_written(tmp_path: Path) -> None:
    for engine in ("partial-update", "first-row"):
        small = a_table(tmp_path / engine, "k INT, v INT", **{"merge-engine": engine})
        with pytest.raises(MergeError, match=f"merge-engine = {engine} cannot take a row of kind"):
            small.commit(("+I", {"k": 1, "v": 1}), ("-D", {"k": 2, "v": 1}))
        assert small.table.snapshots.latest() is None


def test_an_error_of_a_merge_names_its_bucket(tmp_path: Path) -> None:
    small = a_table(tmp_path, "k INT, v INT", **{"merge-engine": "first-row"})
    kinds = pa.array([RowKind.INSERT, RowKind.DELETE], pa.int8())
    columns = arrow_schema(small.table.schema.fields)
    rows = pa.RecordBatch.from_pylist([{"k": 1, "v": 1}, {"k": 1, "v": 2}], columns)
    batch = rows.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), kinds)

    def write_all() -> None:
        with table_write(small.table, next_sequence_number=0) as write:
            write.write(BucketId(serialize_arrow_row([], [], 0), 0), batch)
            write.prepare_commit()

    with pytest.raises(MergeError) as raised:
        write_all()
    assert raised.value.where == f"{small.path}/bucket-0"


UPDATE = (("-U", {"k": 1, "v": 9}), ("+U", {"k": 1, "v": 5}))
MAX = {"merge-engine": "aggregation", "fields.v.aggregate-function": "max"}


@pytest.mark.parametrize(
    "option", ["fields.v.ignore-retract", "ignore-update-before", "ignore-delete"]
)
def test_an_update_that_cannot_be_undone_has_ways_out(tmp_path: Path, option: str) -> None:
    small = a_table(tmp_path, "k INT, v INT", **MAX)
    small.commit(("+I", {"k": 1, "v": 9}))
    with pytest.raises(MergeError, match="column 'v': the aggregate function max cannot") as raised:
        small.commit(*UPDATE)
    assert f"{option} = true" in raised.value.fix
    assert main(["alter", small.path, "--set", f"{option}=true"]) == 0
    fixed_table = SmallTable(open_file_store_table(small.path))
    fixed_table.commit(*UPDATE)
    fixed_table.compact()
    assert rows(fixed_table) == [{"k": 1, "v": 9}]


def test_a_delete_that_empties_a_column_names_it_and_its_key(tmp_path: Path) -> None:
    engine = {"merge-engine": "aggregation"}
    small = a_table(tmp_path, "k INT, n STRING NOT NULL", **engine)
    changes = [("+I", {"k": 1, "n": "x"}), ("+I", {"k": 2, "n": "y"}), ("-D", {"k": 2, "n": "y"})]
    with pytest.raises(MergeError) as raised:
        small.commit(*changes)
    assert "column 'n' is NOT NULL, and a delete leaves no value in it" in raised.value.problem
    assert "k = 2" in raised.value.problem
    advised_command = raised.value.fix.partition("stream-app ")[2].replace("TABLE", small.path)
    assert main(advised_command.split()) == 0
    fixed_table = SmallTable(open_file_store_table(small.path))
    fixed_table.commit(*changes)
    assert rows(fixed_table) == [{"k": 1, "n": "x"}, {"k": 2, "n": None}]


def test_a_wrong_row_kind_in_a_column_is_named(tmp_path: Path) -> None:
    small = a_table(tmp_path, "k INT, op STRING", **{"rowkind.field": "op"})
    with pytest.raises(
        MergeError, match=r"rowkind\.field 'op' of a row is 'I', which is not a row"
    ):
        small.commit(("+I", {"k": 1, "op": "+I"}), ("+I", {"k": 2, "op": "I"}))


def test_a_narrow_read_merges_as_a_whole_one(tmp_path: Path) -> None:
    """The reader adds the columns that order a group, and those that may remove the row."""
    removes = {"partial-update.remove-record-on-sequence-group": "g"}
    small = a_table(tmp_path, GROUPS, **BY_GROUPS, **removes, **{"write-only": "true"})
    small.commit(*[("+I", {"k": k, "a": 1, "g": 5, "b": 5}) for k in (1, 2, 3)])
    small.commit(("+I", {"k": 1, "a": None, "g": 4, "b": 4}))
    small.commit(("-D", {"k": 2, "a": 1, "g": 6, "b": 1}))
    assert rows(small, columns=["b"]) == [{"b": 5}, {"b": 5}]
    assert rows(small, columns=["a"]) == [{"a": 1}, {"a": 1}]
    assert rows(small, columns=["k"], where="b = 4") == []
    assert rows(small, columns=["k"], where="b = 5") == [{"k": 1}, {"k": 3}]


def test_more_runs_than_are_read_at_a_time_are_merged_once(tmp_path: Path) -> None:
    """A delete that is merged before the row that it clears would be forgotten."""
    small = a_table(tmp_path, GROUPS, **BY_GROUPS, **{"write-only": "true"})
    small.commit(("+I", {"k": 1, "a": 1, "g": 1, "b": 1}))
    small.commit(("-D", {"k": 1, "a": 2, "g": 1, "b": 1}))
    small.commit(("+I", {"k": 1, "a": None, "g": None, "b": 7}))
    table = small.table
    files = [entry.file for entry in FileStoreScan(table).live(table.snapshots.latest())]
    section = tuple(SortedRun((file,)) for file in files)
    merged_runs = [
        pa.Table.from_batches(
            merged_section(
                section,
                table.layout(),
                table.merge_function,
                table.bucket_files(b"\0\0\0\0" * 3, 0),
                fan_in=fan_in,
            )
        ).to_pylist()
        for fan_in in (2, 32)
    ]
    assert merged_runs[0] == merged_runs[1]
    assert [row["b"] for row in merged_runs[0]] == [None]


def test_rows_that_are_not_compacted_yet_are_the_newest(tmp_path: Path) -> None:
    """Level 0 lies below rows in which compactions have looked older ones up."""
    options = {"merge-engine": "partial-update", "changelog-producer": "lookup"}
    small = a_table(tmp_path, "k INT, v INT, w INT", **options, **{"lookup-wait": "false"})
    small.commit(("+I", {"k": 1, "v": 1, "w": 1}))
    small.compact()
    small.commit(*[("+I", {"k": k, "v": 2, "w": None}) for k in (0, 1)])
    live = FileStoreScan(small.table).live(small.table.snapshots.latest())
    assert sorted({entry.file.level > 0 for entry in live}) == [False, True]
    assert rows(small) == [{"k": 0, "v": 2, "w": None}, {"k": 1, "v": 2, "w": 1}]


def test_no_follower_takes_the_files_of_an_engine_as_changes(tmp_path: Path) -> None:
    for engine in ("partial-update", "aggregation", "first-row"):
        small = a_table(tmp_path / engine, "k INT, v INT", **{"merge-engine": engine})
        small.commit(("+I", {"k": 1, "v": 1}))
        with pytest.raises(
            UnsupportedTableError, match=f"merge-engine = {engine}: no changelog shows"
        ):
            list(PaimonTable(small.table).changelog(snapshot=1))


def test_an_input_changelog_has_the_rows_as_they_came(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    small = a_table(tmp_path, "k INT, v INT", **options, **{"changelog-producer": "input"})
    changes: list[Change] = [("+I", {"k": 1, "v": 1}), ("-D", {"k": 1, "v": 3})]
    small.commit(*changes)
    small.commit(("+U", {"k": 1, "v": 7}))
    following = [
        row for batch in PaimonTable(small.table).changelog(snapshot=1)
        for row in batch.rows.to_pylist()
    ]  # fmt: skip
    assert [(row["rowkind"], row["v"]) for row in following] == [("+I", 1), ("-D", 3), ("+U", 7)]
    assert rows(small) == [{"k": 1, "v": 5}]
    assert plan_changelog_replay(small.table) == "rows are merged by merge-engine = aggregation"


def test_first_rows_are_read_once_they_are_compacted(tmp_path: Path) -> None:
    """Each compaction looks up the levels above, so no key is on two levels."""
    small = a_table(tmp_path, "k INT, v INT", **{"merge-engine": "first-row"})
    small.commit(*[("+I", {"k": k, "v": 0}) for k in range(0, 3000, 2)])
    small.compact()
    for epoch in range(1, 4):
        small.commit(*[("+I", {"k": k, "v": epoch}) for k in range(epoch, 3000, 500)])
        small.compact()
    table = small.table
    live = FileStoreScan(table).live(table.snapshots.latest())
    assert len({entry.file.level for entry in live}) > 1, "nothing was looked up"
    assert sum(entry.file.row_count for entry in live) == len(rows(small))
    expected = {k: 0 for k in range(0, 3000, 2)}
    for epoch in range(1, 4):
        for k in range(epoch, 3000, 500):
            expected.setdefault(k, epoch)
    assert {row["k"]: row["v"] for row in rows(small)} == expected


def test_first_rows_that_nothing_has_compacted_are_not_read(tmp_path: Path) -> None:
    options = {"merge-engine": "first-row", "write-only": "true"}
    small = a_table(tmp_path, "k INT, v INT", **options)
    small.commit(("+I", {"k": 1, "v": 1}))
    assert rows(small) == []


def test_versions_are_compared_by_their_merged_rows(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    small = a_table(tmp_path, "k INT, v INT", **options, **{"write-only": "true"})
    small.commit(("+I", {"k": 1, "v": 1}), ("+I", {"k": 2, "v": 2}))
    small.commit(("+I", {"k": 1, "v": 5}), ("+I", {"k": 2, "v": 0}))
    table = PaimonTable(small.table)
    rows = table.read_incremental((1, 2), scan_mode="diff").read_all().to_pylist()
    assert [(row["k"], row["v"]) for row in rows] == [(1, 6)]


def test_wrong_options_are_found_when_a_table_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown function 'summ'; did you mean 'sum'"):
        a_table(
            tmp_path, "k INT, v INT",
            **{"merge-engine": "aggregation", "fields.v.aggregate-function": "summ"},
        )  # fmt: skip
