"""A topic and the table that a job made of it, for the verbs that read both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from tests.support.jobs.ingest_process import write_conf
from tests.support.tables.damaged_table import Damage
from tests.support.tables.small_table import SmallTable, small_table


def a_conf(folder: Path, broker: EmbeddedBroker, topic: str) -> Path:
    return write_conf(
        folder / "job.toml",
        source={"bootstrap-servers": broker.bootstrap, "topics": [topic]},
        table={
            "warehouse": str(folder), "database": "db", "name": "t",
            "columns": "k INT, v STRING", "primary-keys": ["k"], "options.bucket": 2,
        },
        stream={"checkpoint": str(folder / "c"), "quarantine": str(folder / "quarantine")},
    )  # fmt: skip


def message(op: str, k: int, v: str) -> tuple[bytes, bytes]:
    image = {"k": k, "v": v}
    value = {
        "op": op,
        "before": image if op == "d" else None,
        "after": None if op == "d" else image,
    }
    return json.dumps({"k": k}).encode(), json.dumps(value).encode()


def a_table(
    folder: Path, topic: str, ends: dict[str, int], rows: Mapping[int, str | None], **options: Any
) -> SmallTable:
    table = small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), bucket=2, **options)
    table.commit(*(("+I", {"k": k, "v": v}) for k, v in rows.items()))
    return read_up_to(table, topic, ends)


def read_up_to(table: SmallTable, topic: str, ends: dict[str, int]) -> SmallTable:
    end = json.dumps({topic: ends})
    Damage(table.table).snapshot(properties={SOURCE_END_PROPERTY: end})
    return table
