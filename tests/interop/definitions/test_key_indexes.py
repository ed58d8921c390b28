"""stream_app reads and continues Paimon 2's tables with key indexes, whose files it keeps.

No writer of them can be had for the tests. So the entries of the index manifest are made here as
Paimon's source has them (`index/pksorted/PkSortedIndexFile.java`), beside deletion vectors. The
files hold no index: whatever opened one would fail.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.index_file_meta import (
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.schema.schema_changes import SetOption
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from tests.support.jobs.table_writer import TableWriter
from tests.support.judges.normal_rows import normal_rows, sorted_rows
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")

KINDS = {
    "pk-btree.index.columns": "btree",
    "pk-bitmap.index.columns": "bitmap",
    "pk-multivalue.index.columns": "multivalue",
    "pk-full-text.index.columns": "full-text",
    "pk-vector.index.columns": "vector",
}


def index_of(table: FileStoreTable, kind: str) -> tuple[BucketChange, str]:
    """A change that adds an index of column ``v`` to the first bucket, and the path of its file."""
    file = IndexFileMeta(
        index_type=kind,
        file_name=f"index-{kind}-0.index",
        file_size=9,
        row_count=20,
        global_index=GlobalIndexMeta(
            row_range_start=0, row_range_end=19, index_field_id=1, extra_field_ids=None,
            index_meta=b"meta", source_meta=b"data-1.parquet",
        ),
    )  # fmt: skip
    entry = IndexManifestEntry(kind=FileKind.ADD, partition=EMPTY, bucket=0, index_file=file)
    path = table.paths.index_file(EMPTY, 0, file)
    table.file_io.write_bytes(path, b"no index!")
    return BucketChange(partition=EMPTY, bucket=0, index_entries=(entry,)), path


EMPTY = bytes(12)
"""The partition of a table without partitions: a BinaryRow of no field."""


@pytest.mark.parametrize(("key", "kind"), KINDS.items())
def test_a_table_with_a_key_index_is_read_and_its_index_is_kept(
    pypaimon: PyPaimonReader,
    tmp_path: Path,
    key: str,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    location = tmp_path / "wh" / "db.db" / "t"
    table = small_table(
        location, "k INT, v STRING", ("k",), bucket=1, deletion_vectors__enabled="true",
        num_sorted_run__compaction_trigger=2,
    ).table  # fmt: skip
    writer = TableWriter(table)
    for epoch in range(3):  # the last one marks rows of the highest level by vectors
        writer.write([("+I", {"k": k, "v": f"{epoch}"}) for k in range(epoch, 20)])
    change, index = index_of(table, kind)
    committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=(change,))
    batch_commit(table).commit_appends(committable)
    with pytest.raises(UsageError, match="would leave the key index stale"):
        alter_table(table, [SetOption(key, "v")])
    [schema] = (location / "schema").iterdir()
    document = json.loads(schema.read_text())
    document.pop("stream_app.digest")
    schema.write_text(json.dumps({**document, "options": {**document["options"], key: "v"}}))

    expected = sorted_rows([{"k": k, "v": f"{min(k, 2)}"} for k in range(20)])
    opened_table = stream_app.open_table(location)
    assert sorted_rows(normal_rows(opened_table.read().read_all())) == expected
    of_one = opened_table.read(where="v = '1'").read_all()
    assert of_one.to_pylist() == [{"k": 1, "v": "1"}]
    assert sorted_rows(normal_rows(pypaimon.read(location))) == expected

    with pytest.raises(UnsupportedTableError, match=rf"cannot write this table: {key} = v \("):
        require_writable(open_file_store_table(str(location)))
    before = {file: file.read_bytes() for file in location.rglob("*") if file.is_file()}
    for verb in ("compact", "truncate"):
        assert main([verb, str(location)]) == 2, verb
        assert f"{key} = v (" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in location.rglob("*") if file.is_file()} == before
    assert main(["check", str(location)]) in (0, 3), capsys.readouterr().out
    delete_orphans(table, plan_orphans(table, 1 << 60))
    latest_snapshot = open_file_store_table(str(location)).snapshots.latest()
    assert latest_snapshot is not None
    entries = table.manifests.read_index_manifest(latest_snapshot.index_manifest)
    indexes = [entry.index_file for entry in entries if entry.index_file.index_type == kind]
    assert indexes == [change.index_entries[0].index_file]
    assert table.file_io.exists(index)
