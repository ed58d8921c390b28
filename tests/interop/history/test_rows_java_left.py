"""A job of ours compacts the rows that Paimon's Java has committed and not compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.waiting_row_count import count_waiting_rows
from tests.support.jobs.table_writer import CompactInCaller, TableWriter
from tests.support.judges.paimon_java import PaimonJava

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
KINDS = {
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction"},
}


def waiting(table: FileStoreTable) -> int:
    return count_waiting_rows(table, table.snapshots.latest(), counts_newest_epoch=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_compacts_what_java_has_left(
    paimon_java: PaimonJava, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "db.db" / "t"
    columns = [("k", "INT NOT NULL"), ("v", "STRING")]
    options = {"bucket": "2", **KINDS[kind]}
    paimon_java.create(path, columns, primary_keys=["k"], options=options)
    rows = [{"k": k, "v": f"v{k}"} for k in range(20)]
    changes = [("+I", row) for row in rows]
    paimon_java.write(path, changes, identifier=1, options={"write-only": True})
    table = require_writable(open_file_store_table(str(path)))
    assert waiting(table) == 20
    skips = kind in ("first-row", "deletion vectors")
    assert len(paimon_java.read(path)) == (0 if skips else 20)

    job = TableWriter(table, CompactInCaller)
    job.write([])
    job.commit.compact_due()
    assert waiting(table) == 0
    assert sorted(paimon_java.read(path), key=lambda row: row["k"]) == rows
    if not skips:
        java_rows = [row for plan in paimon_java.changelog(path) for _, row in plan.changes]
        assert sorted(row["k"] for row in java_rows) == list(range(20))
