"""A callback after a commit may fail, and never fails the commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def test_iceberg_lags_until_a_commit_makes_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file stands where the folder of the metadata belongs."""
    options = {"metadata.iceberg.storage": "table-location"}
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", (), (), **options)
    callbacks = table.committer.callbacks
    assert not callbacks.problems
    in_the_way = Path(table.path) / "metadata"
    in_the_way.write_text("")

    table.commit(("+I", {"k": 1, "v": "a"}))
    [problem] = callbacks.problems
    assert problem.problem == "Iceberg's readers do not see the table's latest snapshot"
    assert "snapshot 1 of" in caplog.text
    table.commit(("+I", {"k": 2, "v": "b"}))
    assert [*callbacks.problems] == [problem], "its text is the same as long as it lasts"

    in_the_way.unlink()
    table.commit(("+I", {"k": 3, "v": "c"}))
    assert not callbacks.problems
    assert (in_the_way / "version-hint.text").read_text() == "3"
