"""`check` compares appended rows with compacted ones, whatever their columns are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from tests.support.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
VALUES: dict[str, Any] = {
    "INT": 1,
    "ARRAY<INT>": [1, 2],
    "MAP<STRING, INT>": [("x", 1)],
    "ROW<x INT, y STRING>": {"x": 1, "y": "q"},
    "ARRAY<ROW<x INT, m MAP<STRING, ARRAY<INT>>>>": [{"x": 1, "m": [("k", [1])]}],
}


@pytest.mark.parametrize("kind", VALUES)
def test_an_append_table_is_sound_behind_a_compaction(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = small_table(tmp_path / "db.db" / "t", f"k INT, v {kind}")
    for epoch in range(6):
        table.commit(*(("+I", {"k": key, "v": VALUES[kind]}) for key in range(epoch, epoch + 3)))
    table.commit(("+I", {"k": 9, "v": None}))
    table.compact()
    assert main(["check", table.path]) == 0
    assert "replayed: " in capsys.readouterr().out
