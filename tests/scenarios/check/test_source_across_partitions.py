"""`check` compares by key a table whose rows move between partitions with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.ops.source_comparison.omissions import Omissions
from stream_app.app.ops.source_comparison.source_replay import replay_source
from stream_app.message_format_registry import format_named
from stream_app.table.check.source_check import SourceCheck
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.messages.debezium_messages import event, messages

pytestmark = pytest.mark.usefixtures("unsynced")
LOOKUP = {"keys": "id,p", "partition_lookup": "true", "bucket": "2"}


def row(key: int, partition: str, value: int) -> str:
    return f'{{"id":{key},"p":"{partition}","v":{value}}}'


@pytest.mark.parametrize("options", [{"bucket": "-1"}, LOOKUP], ids=["key", "partition-lookup"])
@pytest.mark.parametrize("wrong", [False, True])
def test_rows_are_compared_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], wrong: bool
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    table = cross_partition_table(tmp_path / "t", **options)
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": key}) for key in range(6)))
    job.write(("+U", {"id": 1, "p": "b", "v": 7}), ("-D", {"id": 2, "p": "a", "v": 2}))
    sent = [event(after=row(key, "a", key)) for key in range(6)]
    sent += [event("u", after=row(1, "c" if wrong else "b", 7)), event("d", before=row(2, "a", 2))]
    if wrong:
        sent += [event("d", before=row(3, "a", 3)), event(after=row(9, "a", 9))]
    source, check = SourceConfig(), SourceCheck(table, str(tmp_path / "scratch"))
    omissions = Omissions(table.location, format_named(source.format))
    assert replay_source(check, [messages(*sent)], source, TableConfig(), omissions) == len(sent)
    latest = table.snapshots.latest()
    assert latest is not None
    findings = [finding.problem for finding in check.findings(latest)]
    if not wrong:
        assert findings == []
        return
    counts = [[int(word) for word in text.split() if word.isdigit()][:3] for text in findings]
    assert [sum(column) for column in zip(*counts, strict=True)] == [1, 1, 1], findings
