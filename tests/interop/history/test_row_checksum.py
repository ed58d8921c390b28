"""Paimon reads and continues a table whose snapshots carry the checksum of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.model.snapshot import ROW_SUM_PROPERTY
from stream_app.table.analyze.checksum_restoration import publish_row_checksum
from stream_app.table.read.sum_record_of_rows import sum_record_of_rows
from stream_app.table.versions.base_sum_record import base_sum_record
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_paimon_goes_on_and_the_checksum_comes_back(
    paimon_java: PaimonJava, tmp_path: Path, producer: str
) -> None:
    options = {"changelog-producer": producer, "stream-app.row-checksum": "true"}
    table = small_table(
        tmp_path / "db.db" / "t", "k INT NOT NULL, v STRING", ("k",), **options
    ).table
    writer = TableWriter(table)
    ours: list[Change] = [("+I", {"k": k, "v": str(k)}) for k in range(5)]
    writer.write(ours)
    assert by_content(paimon_java.read(table.location)) == by_content([row for _, row in ours])
    [*_, snapshot] = paimon_java.snapshots(table.location)
    assert snapshot["properties"][ROW_SUM_PROPERTY]

    paimon_java.write(table.location, [("-U", {"k": 1, "v": "1"}), ("+U", {"k": 1, "v": "x"})],
                      identifier=1)  # fmt: skip
    theirs = table.snapshots.latest()
    assert theirs is not None
    assert ROW_SUM_PROPERTY not in (theirs.properties or {})
    writer.write([("+I", {"k": 9, "v": "9"})])
    assert not base_sum_record(table, table.snapshots.latest()).is_whole

    assert publish_row_checksum(table, threads=1)
    writer.write([("-U", {"k": 1, "v": "x"}), ("+U", {"k": 1, "v": "y"})])
    latest = table.snapshots.latest()
    assert base_sum_record(table, latest) == sum_record_of_rows(table, latest, threads=1)
    assert by_content(paimon_java.read(table.location)) == by_content(read_rows(table))
