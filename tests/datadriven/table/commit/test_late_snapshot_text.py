"""The committer decides by the numbers of existing snapshots whether its own came too late."""

from __future__ import annotations

from pathlib import Path

from stream_app.table.commit.late_snapshot import snapshot_standing
from tests.support.suite.datadriven import Case, run_file


def _late(case: Case) -> str:
    [line] = case.input_lines
    outcome = snapshot_standing(int(case.args["snapshot"]), {int(word) for word in line.split()})
    return outcome.name.lower().replace("_", " ")


def test_late_snapshots() -> None:
    run_file(Path(__file__).parent / "late_snapshot.txt", _late)
