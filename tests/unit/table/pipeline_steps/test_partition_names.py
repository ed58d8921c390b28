"""Records whose partition can have no folder become bad, and others stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.cdc.pipeline import StepPlace
from stream_app.table.kinds.table_kind_registry import bucket_assigner
from stream_app.table.pipeline_steps.refused_partitions import NameablePartitionStep
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
LONGEST = "x" * (255 - len("dt="))
VALUES = ["a", LONGEST, LONGEST + "x", "é" * 126, "é" * 127, "/" * 84, "/" * 85, "", "b"]


def test_what_can_have_no_folder_is_bad_and_the_others_are_written(tmp_path: Path) -> None:
    events = [{"op": "c", "before": None, "after": {"k": 0, "dt": value}} for value in VALUES]
    before, after = {"k": 0, "dt": LONGEST + "y"}, {"k": 0, "dt": "c"}
    events.append({"op": "u", "before": before, "after": after})
    step = NameablePartitionStep(partition_keys=("dt",))
    decode = a_format("k INT, dt STRING", ("dt", "k")).with_steps(
        {StepPlace.NAMEABLE_PARTITIONS: step}
    )
    decoded_batch = decode.decode(messages("rubbish", *map(json.dumps, events), key=None))
    reasons = reasons_of(decoded_batch)
    assert list(reasons) == [0, 3, 5, 7, 10]
    assert "'dt' whose folder would have a name of more than 255 bytes" in reasons[3]
    written = [row[3] for row in rows_of(decoded_batch)]
    assert written == ["a", LONGEST, "é" * 126, "/" * 84, "", "b"]
    assert len(reasons) + len(written) == 1 + len(events)

    table = small_table(tmp_path / "t", "k INT, dt STRING", ("dt", "k"), ("dt",))
    assigner = bucket_assigner(table.table)
    parts = {name for name, _, _ in assigner.assign(decoded_batch.changes.rows)}
    assert len(parts) == len(written)
    table.commit(*[("+I", {"k": 0, "dt": value}) for value in written])
    folders = [path.name for path in Path(table.path).glob("dt=*")]
    assert len(folders) == len(written)
    assert max(len(name.encode()) for name in folders) == 255
