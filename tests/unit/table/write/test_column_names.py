"""Columns of any names do not meet the columns that a writer adds for its own use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs.table_writer import read_changes, read_rows
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of

NAMES = ("_FILE", "_POSITION", "_NUMBER", "_SIDE", "_ROW", "_OFFSET", "_UNCHANGED", "_MESSAGE")
COLUMNS = "k INT, " + ", ".join(f"{name} INT" for name in NAMES)


def row(key: int, value: int) -> dict[str, Any]:
    return {"k": key, **dict.fromkeys(NAMES, value)}


@pytest.mark.parametrize("vectors", [False, True])
def test_a_looked_up_changelog_has_the_rows_of_a_table_with_odd_names(
    tmp_path: Path, vectors: bool
) -> None:
    small = small_table(
        tmp_path / "t",
        COLUMNS,
        ("k",),
        changelog_producer="lookup",
        deletion_vectors__enabled=vectors,
    )
    small.commit(("+I", row(1, 1)), ("+I", row(2, 2)))
    small.compact()
    small.commit(("+U", row(1, 5)), ("-D", row(2, 2)), ("+I", row(3, 3)))
    small.compact()
    assert sorted(read_rows(small.table), key=str) == [row(1, 5), row(3, 3)]
    changes = [change for part in read_changes(small.table).values() for change in part]
    assert sorted(changes, key=str) == sorted(
        [
            *(("+I", row(key, key)) for key in (1, 2, 3)),
            *(("-U", row(1, 1)), ("+U", row(1, 5)), ("-D", row(2, 2))),
        ],
        key=str,
    )
    assert findings_of(small.table) == []
