"""A job writes a branch of a table, and the main branch takes its rows over afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stream_app
from stream_app.app.cli.main import main
from tests.support.jobs.ingest_process import job_conf
from tests.support.jobs.ingest_server import IngestServer

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


def add_file(folder: Path, start: int, changes: list[tuple[int, str]]) -> None:
    """Messages as lines of a new file; offsets count on from `start`."""
    lines = [
        {
            "topic": "t", "partition": 0, "offset": start + place, "key": json.dumps({"id": key}),
            "value": json.dumps({"op": "c", "before": None, "after": {"id": key, "v": value}}),
        }
        for place, (key, value) in enumerate(changes)
    ]  # fmt: skip
    whole = folder / "in" / f"{start}.jsonl"
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def ingest(server: IngestServer, folder: Path, checkpoint: str, code: int = 0, **table: str) -> str:
    conf = job_conf(
        folder,
        source={"kind": "files", "path": str(folder / "in")},
        table=table,
        stream={"checkpoint": str(folder / checkpoint)},
    )
    result = server.run(conf)
    assert result.code == code, result.output
    return result.output


def rows(table: str) -> dict[int, str]:
    read = stream_app.open_table(table).read().read_all().to_pylist()
    return {row["id"]: row["v"] for row in read}


def test_a_job_writes_a_branch_and_leaves_the_main_one(
    tmp_path: Path, ingest_server: IngestServer
) -> None:
    table = str(tmp_path / "warehouse" / "db.db" / "t")
    add_file(tmp_path, 0, [(key, "main") for key in range(5)])
    ingest(ingest_server, tmp_path, "checkpoint")
    before = dict.fromkeys(range(5), "main")
    assert rows(table) == before
    assert main(["create-tag", table, "begin"]) == 0
    assert main(["branch", "create", table, "side", "--tag", "begin"]) == 0

    add_file(tmp_path, 5, [(key, "side") for key in range(3)])
    ingest(ingest_server, tmp_path, "of_branch", branch="side")
    side = {**before, **dict.fromkeys(range(3), "side")}
    assert rows(table) == before
    assert rows(f"{table}$branch_side") == side
    assert "the checkpoint belongs to the table" in ingest(
        ingest_server, tmp_path, "of_branch", code=2
    )
    assert main(["branch", "fast-forward", table, "side"]) == 0
    assert rows(table) == side
