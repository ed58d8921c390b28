"""`check` compares a table with the rows that its source has after a TRUNCATE."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.ops.source_comparison.source_replay import replay_source
from stream_app.message_format_registry import format_named
from stream_app.table.check.source_check import SourceCheck
from tests.support.messages.debezium_messages import event, messages
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def insert(key: int, value: str) -> str:
    return event(after=f'{{"k":{key},"v":"{value}"}}')


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_rows_before_a_truncate_are_not_a_loss(tmp_path: Path, cut: int) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=2)
    small.commit(("+I", {"k": 2, "v": "new"}), ("+I", {"k": 3, "v": "new"}))
    sent = messages(insert(1, "gone"), insert(2, "gone"), event("t"), insert(2, "new"))
    later = messages(insert(3, "new"))
    source = SourceConfig(format_options={"truncate": "apply"})
    omissions = Omissions(small.table.location, format_named(source.format))
    check = SourceCheck(small.table, str(tmp_path / "scratch"))
    read = [part for part in (sent.slice(0, cut), sent.slice(cut), later) if part.num_rows]
    assert replay_source(check, read, source, TableConfig(), omissions) in (2, 3, 4)
    latest = small.table.snapshots.latest()
    assert latest is not None
    assert list(check.findings(latest)) == []
