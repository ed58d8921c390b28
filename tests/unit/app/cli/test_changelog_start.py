"""``--from`` accepts each of its texts, and refuses snapshots that it cannot start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.cli.verbs.changelog import check_start, start_of
from stream_app.errors import UsageError
from stream_app.planning.read.stream_start import StartMode, StreamStart
from tests.support.tables.small_table import small_table


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("7", StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=7)),
        ("7-full", StreamStart(mode=StartMode.FROM_SNAPSHOT_FULL, snapshot_id=7)),
        ("earliest", StreamStart(mode=StartMode.FROM_SNAPSHOT, snapshot_id=0)),
        ("latest", StreamStart(mode=StartMode.LATEST)),
        ("latest-full", StreamStart(mode=StartMode.LATEST_FULL)),
        ("compacted-full", StreamStart(mode=StartMode.COMPACTED_FULL)),
        (
            "2026-01-01T00:00:00Z",
            StreamStart(mode=StartMode.FROM_TIMESTAMP, timestamp_ms=1_767_225_600_000),
        ),
    ],
)
def test_a_start_as_text(text: str, start: StreamStart) -> None:
    assert start_of(text) == start


@pytest.mark.parametrize("text", ["", "-1", "7-all", "from-snapshot", "yesterday"])
def test_other_texts_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match="is not a start") as caught:
        start_of(text)
    assert "latest-full" in caught.value.fix


def test_an_expired_start_is_an_error_with_the_first_that_is_left(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT", ("k",))
    for key in range(3):
        small.commit(("+I", {"k": key}))
    for number in (1, 2):
        (Path(small.path) / f"snapshot/snapshot-{number}").unlink()
    (Path(small.path) / "snapshot/EARLIEST").unlink()
    for text in ("1", "2-full"):
        with pytest.raises(UsageError, match="has expired: the table has 3 to 3") as caught:
            check_start(small.table, start_of(text), follows=True)
        assert "begin with 3" in caught.value.fix
    for text in ("3", "earliest", "4"):
        check_start(small.table, start_of(text), follows=True)
    with pytest.raises(UsageError, match="does not exist yet, the latest is 3"):
        check_start(small.table, start_of("4"), follows=False)
