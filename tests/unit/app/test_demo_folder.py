"""What a demo deletes of an earlier one, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.demo import DemoFolder
from stream_app.errors import UsageError


def with_a_demo(folder: Path) -> DemoFolder:
    demo = DemoFolder(folder)
    demo.clear()
    for name in ("schema/schema-0", "snapshot/snapshot-1"):
        path = demo.table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return demo


def test_a_demo_that_has_ended_or_was_interrupted_is_cleared(tmp_path: Path) -> None:
    demo = with_a_demo(tmp_path)
    demo.clear()
    assert not demo.table.exists()
    demo = with_a_demo(tmp_path)
    demo.note_end()
    demo.clear()
    assert not demo.table.exists()


def test_a_table_that_the_demo_did_not_make_stays(tmp_path: Path) -> None:
    demo = DemoFolder(tmp_path)
    demo.table.mkdir(parents=True)
    with pytest.raises(UsageError, match="is not an earlier demo's"):
        demo.clear()
    assert demo.table.exists()


@pytest.mark.parametrize("name", ["schema/schema-0", "snapshot/snapshot-2"])
def test_a_table_that_somebody_has_written_since_stays(tmp_path: Path, name: str) -> None:
    demo = with_a_demo(tmp_path)
    demo.note_end()
    (demo.table / name).write_text("another one's")
    with pytest.raises(UsageError, match="has been written since the demo made it"):
        demo.clear()
    assert demo.table.exists()
