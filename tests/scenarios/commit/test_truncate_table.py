"""A TRUNCATE deletes all files, also where compactions have left the index alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.single_append import SingleAppend
from stream_app.table.job.stream_table_commit import StreamTableCommit, truncate_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.small_table import CompactHere, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def append(table: FileStoreTable, user: str, kind: RowKind) -> None:
    rows = pa.record_batch({
        VALUE_KIND: pa.array([int(kind)] * 3, pa.int8()), "k": pa.array([1, 2, 3], pa.int32())
    })  # fmt: skip
    writer = SingleAppend.begin(table, user)
    writer.commit(writer.write(rows), {})


def test_an_index_without_rows_goes_too(tmp_path: Path) -> None:
    table = small_table(tmp_path / "db.db" / "t", "k INT", ("k",), bucket=-1).table
    append(table, "first", RowKind.INSERT)
    append(table, "second", RowKind.DELETE)
    compactor = StreamTableCommit(
        table, "compactor", CompactHere(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    compactor.compact_fully()
    latest = table.snapshots.latest()
    assert latest is not None
    assert not FileStoreScan(table).live(latest)
    assert table.manifests.read_index_manifest(latest.index_manifest)
    truncation = truncate_table(table, "job")
    assert truncation is not None
    assert not table.manifests.read_index_manifest(truncation.index_manifest)
    assert truncate_table(table, "job") is None
