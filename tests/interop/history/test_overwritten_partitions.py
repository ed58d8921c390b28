"""Paimon's readers see the rows of partitions that stream_app overwrote, and Java continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.table.api.paimon_table import open_table
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.sound_table import findings_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("v", "STRING")]
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"bucket": 2},
    "dynamic": {"bucket": -1, "dynamic-bucket.target-row-num": 5},
    "vectors": {"bucket": 2, "deletion-vectors.enabled": "true"},
    "first row": {"bucket": 2, "merge-engine": "first-row"},
    "keyless": {"bucket": -1},
}


def day(name: str, mark: str, count: int) -> list[dict[str, Any]]:
    return [{"dt": name, "id": number, "v": mark} for number in range(count)]


@pytest.mark.parametrize("kind", list(KINDS))
def test_paimon_reads_and_continues_an_overwritten_partition(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, kind: str
) -> None:
    location, is_keyed = tmp_path / "shop.db" / "orders", kind != "keyless"
    paimon_java.create(
        location, COLUMNS, primary_keys=["dt", "id"] if is_keyed else [], partition_keys=["dt"],
        options=KINDS[kind],
    )  # fmt: skip
    table = open_table(str(location))

    def check(expected: list[dict[str, Any]]) -> None:
        assert by_content(paimon_java.read(location)) == by_content(expected)
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(expected)
        assert by_content(normal_rows(table.read().read_all())) == by_content(expected)

    old = [("+I", row) for name in ("d0", "d1") for row in day(name, "java", 12)]
    paimon_java.write(location, old, identifier=1)
    schema = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
    table.overwrite(pa.Table.from_pylist(day("d0", "ours", 7), schema))
    check([*day("d0", "ours", 7), *day("d1", "java", 12)])
    more = [("+I", row) for row in day("d0", "java again", 9)]
    paimon_java.write(location, more, identifier=2)
    of_day = [*day("d0", "ours", 7), *day("d0", "java again", 9)]
    if kind == "first row":
        of_day = [*day("d0", "ours", 7), *day("d0", "java again", 9)[7:]]
    elif is_keyed:
        of_day = day("d0", "java again", 9)
    check([*of_day, *day("d1", "java", 12)])
    assert findings_of(table.table) == []
    table.overwrite(pa.Table.from_pylist([], schema), partition={"dt": "d1"})
    check(of_day)
