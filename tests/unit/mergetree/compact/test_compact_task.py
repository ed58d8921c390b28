"""A failed compaction leaves no file behind. compact_task.txt has what a compaction does."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from stream_app.errors import CorruptFileError
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.mergetree.file_access import WrittenFiles
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from tests.support.tables.lsm_files import INT_KEY, MemoryFiles, a_layout

LAYOUT = a_layout("k INT NOT NULL", "k")


def store_file(files: MemoryFiles, name: str, keys: list[int]) -> DataFileMeta:
    rows = [{"_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "k": key} for key in keys]
    batch = pa.RecordBatch.from_pylist(rows, schema=LAYOUT.schema)
    return files.store(name, batch, 0, FileSource.APPEND)


def task_of(
    files: MemoryFiles, metas: list[DataFileMeta], *, rewrites_all: bool = False
) -> CompactTask:
    request = CompactRequest(
        partition=b"",
        bucket=0,
        unit=CompactUnit(3, tuple(metas), ""),
        drops_deletes=False,
        max_level=5,
        rewrites_all=rewrites_all,
    )
    return CompactTask(request, CompactRewriter(LAYOUT, Deduplicate(), files), files.key_of, 0)


@pytest.mark.parametrize("missing", ["c1", "c2", "b"])
def test_a_compaction_of_a_missing_file_leaves_no_output(missing: str) -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    metas = [
        store_file(files, "a1", [1, 3]),
        store_file(files, "a2", [2, 3]),
        store_file(files, "b", [5]),
        store_file(files, "c1", [7, 9]),
        store_file(files, "c2", [8, 9]),
    ]
    del files.stored_batches[missing]
    before = set(files.stored_batches)
    with pytest.raises(CorruptFileError, match=f"no file {missing}"):
        task_of(files, metas, rewrites_all=True).run()
    assert files.file_count > 0, "what came before it was written"
    assert set(files.stored_batches) == before
    assert files.open_writers == 0


def test_an_upgraded_file_is_not_deleted_by_a_later_failure() -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    metas = [
        store_file(files, "a", [1]),
        store_file(files, "b1", [2, 4]),
        store_file(files, "b2", [3, 4]),
    ]
    del files.stored_batches["b2"]
    with pytest.raises(CorruptFileError, match="no file b2"):
        task_of(files, metas).run()
    assert set(files.stored_batches) == {"a", "b1"}
    assert files.open_writers == 0


class LoggingRewriter(CompactRewriter):
    """Puts one changelog file beside what it writes."""

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drops_deletes: bool
    ) -> WrittenFiles:
        rewritten = super().rewrite(
            sections, output_level=output_level, drops_deletes=drops_deletes
        )
        changelog = self.file_access.changelog_writer()
        changelog.write(next(self.file_access.read(rewritten.added_files[0])))
        return WrittenFiles(rewritten.added_files, changelog.close())


def logging_task(files: MemoryFiles, metas: list[DataFileMeta]) -> CompactTask:
    task = task_of(files, metas)
    task.rewriter = LoggingRewriter(LAYOUT, Deduplicate(), files)
    return task


def test_the_changelog_of_all_rewrites_is_in_the_change() -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    pairs = [("a1", [1, 3]), ("a2", [2, 3]), ("b", [5]), ("c1", [7, 9]), ("c2", [8, 9])]
    metas = [store_file(files, name, keys) for name, keys in pairs]
    change = logging_task(files, metas).run()
    assert {file.file_name for file in change.removed_files} == {name for name, _ in pairs}
    assert [len(list(files.read(file))) for file in change.changelog_files] == [1, 1]
    assert set(files.stored_batches) - {name for name, _ in pairs} == {
        file.file_name for file in change.written_files
    }


def test_a_failure_deletes_the_changelog_too() -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    pairs = [("a1", [1, 3]), ("a2", [2, 3]), ("b", [5]), ("c1", [7, 9]), ("c2", [8, 9])]
    metas = [store_file(files, name, keys) for name, keys in pairs]
    del files.stored_batches["c2"]
    before = set(files.stored_batches)
    with pytest.raises(CorruptFileError, match="no file c2"):
        logging_task(files, metas).run()
    assert files.file_count > 1, "data and changelog of what came before were written"
    assert set(files.stored_batches) == before
