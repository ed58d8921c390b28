"""The Python on the page about reading runs, in its order, on a table as the page has it.

What needs Spark is run by `tests/interop/read/test_spark_source.py`, in other words.
"""

from __future__ import annotations

import datetime as dt
import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables.small_table import small_table
from tests.tidy.project_files import ROOT

PAGE = ROOT / "docs" / "read" / "reading.md"
BLOCKS = [
    block
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.DOTALL)
    if "spark" not in block
]


def order(number: int, amount: str) -> tuple[str, dict[str, Any]]:
    time = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a timestamp without zone
    return "+I", {
        "dt": f"2026-01-0{number % 2 + 1}", "id": number, "customer": "Ada",
        "amount": Decimal(amount), "updated_at": time,
    }  # fmt: skip


@pytest.mark.usefixtures("unsynced")
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "warehouse/shop.db/orders"
    small = small_table(
        root,
        "dt STRING, id BIGINT, customer STRING, amount DECIMAL(12,2), updated_at TIMESTAMP(6)",
        ("dt", "id"), ("dt",), changelog_producer="input",
    )  # fmt: skip
    small.commit(*(order(number, "99.50") for number in range(10)))
    small.commit(*(order(number, "100.50") for number in range(5, 15)))
    (root / "tag").mkdir()
    for name, number in (("opening", 1), ("closing", 2)):
        shutil.copy(root / f"snapshot/snapshot-{number}", root / f"tag/tag-{name}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert len(BLOCKS) >= 6
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)
    assert sorted(day for day, _ in names["by_day"]) == ["2026-01-01", "2026-01-02"]
    assert len(names["pandas_frame"]) == 15
    assert names["polars_frame"].height == names["rows"] == 8
