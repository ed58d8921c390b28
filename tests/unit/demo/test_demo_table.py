"""The demo learns its table's progress from the snapshots alone."""

from __future__ import annotations

import json
from pathlib import Path

from stream_app.demo.progress_panel import TableProgress, messages_before
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.table.opening import open_file_store_table
from tests.support.tables.small_table import small_table


def test_offsets_are_added_up() -> None:
    assert messages_before('{"a":{"0":3,"1":4}}\n{"b":{"0":5}}') == 12


def test_snapshots_record_how_far_the_table_is(tmp_path: Path) -> None:
    place = tmp_path / "db.db" / "t"
    progress = TableProgress(str(place))
    progress.read_snapshots()
    assert (progress.message_count, progress.latest_id, progress.epoch) == (0, 0, None)
    table = small_table(place, "k INT, v STRING", ("k",))
    table.commit(("+I", {"k": 1, "v": "a"}))
    progress.read_snapshots()
    assert (progress.message_count, progress.latest_id) == (0, 1), (
        "another writer's tells of no source"
    )
    snapshots = open_file_store_table(str(place)).snapshots
    snapshot = snapshots.snapshot(1)
    for number in (2, 3):
        end = json.dumps({"shop": {"0": number * 10, "1": 5}})
        document = json.loads(Path(f"{place}/snapshot/snapshot-1").read_text())
        document.pop("stream_app.digest", None)
        document |= {"id": number, "commitIdentifier": number}
        document["properties"] = {**(document.get("properties") or {}), SOURCE_END_PROPERTY: end}
        Path(f"{place}/snapshot/snapshot-{number}").write_text(json.dumps(document))
    Path(f"{place}/snapshot/LATEST").write_text("3")
    progress.read_snapshots()
    assert (progress.message_count, progress.latest_id, progress.epoch) == (35, 3, 3)
    assert progress.snapshots == {snapshot.commit_kind.value: 3}
