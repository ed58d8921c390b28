"""The file and snapshots of "Statistics of a table" in docs/reference/format.md are true.

`interop/read/test_statistics` has Paimon's side, and the change of a schema.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

import stream_app
from tests.support.tables.small_table import SmallTable, small_table
from tests.tidy.project_files import text_of

SECTION = text_of("docs/reference/format.md").split("\n## Statistics of a table ")[1]
ROWS = [(1, "4.50", "first"), (2, "12.00", None)]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    table = small_table(tmp_path / "t", "id INT, amount DECIMAL(8, 2), note STRING", ("id",))
    for row_id, amount, note in ROWS:
        table.commit(("+I", {"id": row_id, "amount": Decimal(amount), "note": note}))
    stream_app.open_table(table.path).analyze()
    return table


def statistics_name(small: SmallTable) -> str | None:
    latest_snapshot = small.table.snapshots.latest()
    assert latest_snapshot is not None
    return latest_snapshot.statistics


def test_the_file_is_the_one_on_the_page(small: SmallTable) -> None:
    name = statistics_name(small)
    assert name is not None
    assert re.fullmatch(r"stat-[0-9a-f-]{36}-0", name)
    file = json.loads((Path(small.path) / "statistics" / name).read_text())
    assert file.pop("stream_app.digest")
    match = re.search(r"```json\n(.*?)```", SECTION, flags=re.DOTALL)
    assert match
    documented_statistics = json.loads(match[1])
    sizes = [path.stat().st_size for path in Path(small.path).glob("bucket-*/data-*")]
    assert file == {**documented_statistics, "mergedRecordSize": sum(sizes)}


def test_a_later_snapshot_names_the_same_file(small: SmallTable) -> None:
    name = statistics_name(small)
    small.commit(("+I", {"id": 3, "amount": Decimal("1.00"), "note": "more"}))
    assert statistics_name(small) == name


def test_a_missing_file_ends_the_statistics_and_no_read(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    name = statistics_name(small)
    assert name is not None
    (Path(small.path) / "statistics" / name).unlink()
    assert stream_app.open_table(small.path).read().read_all().num_rows == len(ROWS)
    small.commit(("+I", {"id": 3, "amount": Decimal("1.00"), "note": "more"}))
    assert statistics_name(small) is None
    assert "statistics cannot be read, so they end here" in caplog.text
