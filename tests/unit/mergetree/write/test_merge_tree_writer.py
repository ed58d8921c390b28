"""Write buffer, spill and flush give the rows that a dict predicts, for any stream of changes."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.errors import RecordTooLargeError
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.write.merge_tree_writer import MergeTreeWriter
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.support.histories.change_streams import (
    SHAPES,
    Shape,
    batches_of,
    changes,
    key_in,
    merged_view,
    newest,
    with_sequence_numbers,
)
from tests.support.tables.lsm_files import MemoryFiles

INT = SHAPES[0]


def writer_of(
    shape: Shape, files: MemoryFiles, *, bytes_max: int, changelog: bool = False, **options: Any
) -> MergeTreeWriter:
    engine = Deduplicate()
    ignored_kinds = options.pop("ignored_kinds", frozenset())
    return MergeTreeWriter(
        layout=shape.layout,
        buffer=SortBufferWriteBuffer(
            layout=shape.layout,
            bytes_max=bytes_max,
            chunk_merge=None if changelog else engine,
            **options,
        ),
        merge_function=engine,
        file_access=files,
        next_sequence_number=100,
        writes_changelog=changelog,
        ignored_kinds=ignored_kinds,
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.label)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.slow
def test_what_is_written_is_what_a_dict_holds(shape: Shape, data: st.DataObject) -> None:
    rows = data.draw(changes(shape))
    files = shape.files(rows_per_file=data.draw(st.integers(1, 30)))
    changelog = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        writer = writer_of(
            shape,
            files,
            # From a buffer that a row nearly fills to one that holds them all.
            bytes_max=data.draw(st.sampled_from([200, 600, 2_000, 1_000_000])),
            changelog=changelog,
            may_spill=data.draw(st.booleans()),
            spilled_bytes_max=data.draw(st.sampled_from([None, 0, 3_000])),
            spill_parent=folder,
        )
        for batch in batches_of(rows, shape, data.draw(st.integers(1, 40))):
            writer.write(batch)
        result = writer.prepare_commit()
        assert list(Path(folder).iterdir()) == [], "no spill file stays"
    arrived_rows = with_sequence_numbers(rows, 100)
    assert writer.next_sequence_number == 100 + len(rows)
    merged_rows = merged_view(result.added_files, files, Deduplicate())
    expected = newest(arrived_rows, shape)
    assert {key_in(shape)(row): row for row in merged_rows} == expected
    assert len(merged_rows) == len(expected)
    assert {file.level for file in result.added_files} <= {0}
    changelog_rows = files.rows_of(result.changelog_files)
    assert by_key(changelog_rows, shape) == (
        in_order_of_age(arrived_rows, shape) if changelog else {}
    )


def by_key(rows: list[dict[str, Any]], shape: Shape) -> dict[Any, list[dict[str, Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key_in(shape)(row)].append(row)
    return dict(groups)


def in_order_of_age(rows: list[dict[str, Any]], shape: Shape) -> dict[Any, list[dict[str, Any]]]:
    """The changes of each key, oldest first: with sequence fields that is not their arrival.

    A flush in between begins a new changelog file, so such shapes are compared without order.
    """
    if shape.layout.sequence_fields:
        return {key: AnyOrder(group) for key, group in by_key(rows, shape).items()}
    return by_key(rows, shape)


class AnyOrder(list[dict[str, Any]]):
    def __eq__(self, other: object) -> bool:
        assert isinstance(other, list)
        return sorted(map(repr, self)) == sorted(map(repr, other))

    __hash__ = None


@given(rows=changes(INT))
@settings(max_examples=30, deadline=None)
def test_ignored_kinds_take_no_sequence_number(rows: list[dict[str, Any]]) -> None:
    files = INT.files()
    ignored_kinds = frozenset({RowKind.DELETE, RowKind.UPDATE_BEFORE})
    writer = writer_of(INT, files, bytes_max=1_000, ignored_kinds=ignored_kinds)
    for batch in batches_of(rows, INT, 7):
        writer.write(batch)
    numbered_rows = with_sequence_numbers([row for row in rows if row[VALUE_KIND] in (0, 2)], 100)
    merged_rows = merged_view(writer.prepare_commit().added_files, files, Deduplicate())
    assert {key_in(INT)(row): row for row in merged_rows} == newest(numbered_rows, INT)


def some_rows(count: int, text: str = "v") -> Iterator[pa.RecordBatch]:
    rows = [{VALUE_KIND: 0, "k": number, "v": text} for number in range(count)]
    yield from batches_of(rows, INT, 10)


def test_nothing_written_makes_no_file() -> None:
    writer = writer_of(INT, INT.files(), bytes_max=1_000, changelog=True)
    result = writer.prepare_commit()
    assert result.added_files == result.changelog_files == ()


def test_files_are_handed_over_once() -> None:
    writer = writer_of(INT, INT.files(), bytes_max=1_000_000)
    for batch in some_rows(5):
        writer.write(batch)
    assert len(writer.prepare_commit().added_files) == 1
    assert writer.prepare_commit().added_files == ()


def test_a_full_buffer_without_spill_makes_further_files(tmp_path: Path) -> None:
    files = INT.files()
    writer = writer_of(INT, files, bytes_max=1_000, may_spill=False, spill_parent=str(tmp_path))
    for batch in some_rows(100):
        writer.write(batch)
    written = writer.prepare_commit().added_files
    assert len(written) > 1
    assert [file.min_sequence_number for file in written] == sorted(
        file.min_sequence_number for file in written
    )


def test_a_large_batch_does_not_go_past_a_full_buffer() -> None:
    writer = writer_of(INT, INT.files(), bytes_max=1_000, may_spill=False)
    rows = [{VALUE_KIND: 0, "k": number, "v": "v"} for number in range(1000)]
    (batch,) = batches_of(rows, INT, 1000)
    writer.write(batch)
    written = writer.prepare_commit().added_files
    assert max(file.file_size for file in written) <= 1_250


@pytest.mark.slow
def test_with_spill_one_flush_makes_one_file() -> None:
    writer = writer_of(INT, INT.files(), bytes_max=1_000)
    for batch in some_rows(1000):
        writer.write(batch)
    assert writer.buffer.spilled_size > 0
    assert len(writer.prepare_commit().added_files) == 1


def test_a_spill_limit_that_is_reached_makes_a_further_file() -> None:
    files = INT.files(rows_per_file=10**6)
    writer = writer_of(INT, files, bytes_max=1_000_000, spilled_bytes_max=1_600_000)
    random = Random(7)
    rows = [{VALUE_KIND: 0, "k": n, "v": random.randbytes(200).hex()} for n in range(6_000)]
    spilled_sizes = []
    for batch in batches_of(rows, INT, 50):
        writer.write(batch)
        spilled_sizes.append(writer.buffer.spilled_size)
    assert 800_000 < max(spilled_sizes) <= 1_600_000
    written = writer.prepare_commit().added_files
    assert len(written) > 1
    assert sum(file.row_count for file in written) == 6_000


@pytest.mark.slow
def test_abort_leaves_no_file(tmp_path: Path) -> None:
    files = INT.files()
    writer = writer_of(INT, files, bytes_max=1_000, changelog=True, spill_parent=str(tmp_path))
    for batch in some_rows(30):
        writer.write(batch)
    writer.flush()
    for batch in some_rows(1000):
        writer.write(batch)
    assert list(tmp_path.iterdir())
    assert files.stored_batches
    writer.abort()
    assert list(tmp_path.iterdir()) == []
    assert files.stored_batches == {}


class FailingChangelog(MemoryFiles):
    def changelog_writer(self, *, level: int = 0) -> Any:
        writer = super().changelog_writer(level=level)

        def fail() -> Any:
            raise OSError("disk full")

        writer.close = fail  # type: ignore[method-assign]
        return writer


def test_a_flush_that_fails_leaves_no_file() -> None:
    files = FailingChangelog(INT.layout, INT.files().key_types)
    writer = writer_of(INT, files, bytes_max=1_000_000, changelog=True)
    for batch in some_rows(5):
        writer.write(batch)
    with pytest.raises(OSError, match="disk full"):
        writer.flush()
    assert files.stored_batches == {}
    assert files.open_writers == 0
    writer.abort()  # would fail if it deleted the same files again


def test_a_record_larger_than_the_buffer_is_refused() -> None:
    writer = writer_of(INT, INT.files(), bytes_max=1_000)
    (batch,) = some_rows(1, text="x" * 2_000)
    with pytest.raises(RecordTooLargeError) as caught:
        writer.write(batch)
    assert "raise the table option 'write-buffer-size'" in str(caught.value)
    assert "has 1000" in str(caught.value)


def test_sequence_numbers_of_a_file_are_those_of_its_rows() -> None:
    files = INT.files()
    writer = writer_of(INT, files, bytes_max=1_000_000)
    for batch in some_rows(3):
        writer.write(batch)
    (file,) = writer.prepare_commit().added_files
    assert (file.min_sequence_number, file.max_sequence_number) == (100, 102)
    assert [row[SEQUENCE_NUMBER] for row in files.rows_of([file])] == [100, 101, 102]
