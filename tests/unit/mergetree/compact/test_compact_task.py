"""A compaction that fails leaves nothing behind. What one does: compact_task.txt."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stream_app.errors import CorruptFileError
from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.merge_function import Deduplicate
from stream_app.model.data_file_meta import DataFileMeta, FileSource
from tests.support.lsm_files import INT_KEY, MemoryFiles, a_layout

LAYOUT = a_layout("k INT NOT NULL", "k")


def stored(files: MemoryFiles, name: str, keys: list[int]) -> DataFileMeta:
    rows = [{"_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "k": key} for key in keys]
    batch = pa.RecordBatch.from_pylist(rows, schema=LAYOUT.schema)
    return files.store(name, batch, 0, FileSource.APPEND)


def task_of(
    files: MemoryFiles, metas: list[DataFileMeta], *, rewrite_all: bool = False
) -> CompactTask:
    request = CompactRequest(
        partition=b"",
        bucket=0,
        unit=CompactUnit(3, tuple(metas), ""),
        drop_deletes=False,
        max_level=5,
        rewrite_all=rewrite_all,
    )
    return CompactTask(request, CompactRewriter(LAYOUT, Deduplicate(), files), files.key_of, 0)


@pytest.mark.parametrize("missing", ["c1", "c2", "b"])
def test_a_file_that_cannot_be_read(missing: str) -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    metas = [
        stored(files, "a1", [1, 3]),
        stored(files, "a2", [2, 3]),
        stored(files, "b", [5]),
        stored(files, "c1", [7, 9]),
        stored(files, "c2", [8, 9]),
    ]
    del files.stored[missing]
    given = set(files.stored)
    with pytest.raises(CorruptFileError, match=f"no file {missing}"):
        task_of(files, metas, rewrite_all=True).run()
    assert files.made > 0, "what came before it was written"
    assert set(files.stored) == given
    assert files.open_writers == 0


def test_an_upgraded_file_is_not_deleted_by_a_later_failure() -> None:
    files = MemoryFiles(LAYOUT, INT_KEY)
    metas = [
        stored(files, "a", [1]),
        stored(files, "b1", [2, 4]),
        stored(files, "b2", [3, 4]),
    ]
    del files.stored["b2"]
    with pytest.raises(CorruptFileError, match="no file b2"):
        task_of(files, metas).run()
    assert set(files.stored) == {"a", "b1"}
    assert files.open_writers == 0
