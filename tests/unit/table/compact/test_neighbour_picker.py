"""The picker of a bucket without keys picks neighbouring files, and picks none twice."""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.mergetree.levels import Levels
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.compact.append_compaction import files_in_row_order
from stream_app.table.compact.append.bucketed_append import NeighbourPicker
from tests.support.tables.lsm_files import a_file

TARGET = 100


def a_picker(*files: DataFileMeta) -> NeighbourPicker:
    schema = TableSchema(
        schema_id=0,
        fields=parse_columns("k BIGINT"),
        highest_field_id=0,
        partition_keys=(),
        primary_keys=(),
        options={
            "bucket": "1",
            "bucket-key": "k",
            "target-file-size": f"{TARGET} b",
            "compaction.min.file-num": "3",
        },
    )
    return NeighbourPicker(schema, files_in_row_order(files))


def small(number: int) -> DataFileMeta:
    return a_file(f"f{number}", file_size=10, sequence=number)


def levels(files: Sequence[DataFileMeta]) -> Levels:
    return Levels(files, num_levels=1, key_of=lambda key: (key,))


def picked_unit(picker: NeighbourPicker, *, full: bool = False) -> CompactUnit | None:
    return picker.pick_unit(levels([]), local_time_ms=0, is_full=full, expects_no_flush=False)


def names(unit: CompactUnit | None) -> list[str]:
    return [] if unit is None else [file.file_name for file in unit.files]


def test_what_is_picked_leaves_the_queue() -> None:
    picker = a_picker(*map(small, range(4)))
    assert names(picked_unit(picker)) == ["f0", "f1", "f2"]
    assert picked_unit(picker) is None
    assert picker.queue == (small(3),)


def test_new_files_come_in_the_order_of_their_rows() -> None:
    picker = a_picker(small(5))
    picker.note_new_file(small(4))
    picker.note_new_file(small(6))
    assert names(picked_unit(picker)) == ["f4", "f5", "f6"]


def test_files_of_a_failed_unit_are_picked_again() -> None:
    picker = a_picker(*map(small, range(3)))
    unit = picked_unit(picker)
    assert unit is not None
    picker.note_failed_unit(unit)
    assert names(picked_unit(picker)) == names(unit)


def test_only_a_small_last_file_of_an_outcome_is_picked_again() -> None:
    for size, queue in ((TARGET, []), (10, ["c1"])):
        picker = a_picker(*map(small, range(3)))
        unit = picked_unit(picker)
        assert unit is not None
        outcome = [a_file("c0", file_size=TARGET), a_file("c1", file_size=size, sequence=2)]
        change = BucketChange(
            partition=b"", bucket=0, removed_files=unit.files, added_files=tuple(outcome)
        )
        picker.note_applied_unit(levels(unit.files), unit, change)
        assert [file.file_name for file in picker.queue] == queue


def test_after_another_writer_all_that_does_not_run_is_in_the_queue() -> None:
    picker = a_picker(*map(small, range(3)))
    running = picked_unit(picker)
    files = [small(number) for number in range(5)]
    picker.note_replaced_levels(levels([]), levels(files), running)
    assert [file.file_name for file in picker.queue] == ["f3", "f4"]


def test_a_full_compaction_takes_what_lies_behind_the_large_files() -> None:
    picker = a_picker(a_file("large", file_size=TARGET), *map(small, range(1, 4)))
    assert names(picked_unit(picker, full=True)) == ["f1", "f2", "f3"]
    assert picked_unit(picker, full=True) is None
