"""Paimon's Java and stream_app write keyed tables with deletion vectors in turns."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import stream_app
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.deletion_vectors import deletion_vectors
from tests.support.interop.compacted_tables import latest_of
from tests.support.jobs.table_writer import CompactInCaller, TableWriter
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_we_and_java_mark_replaced_rows_in_turns(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, producer: str
) -> None:
    """Small epochs mark the rows of a large level that they replace, so readers need not merge."""
    location = tmp_path / "shop.db" / "orders"
    noise = random.Random(f"{seed} {producer}")
    paimon_java.create(
        location, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"],
        options={
            "bucket": 2, "deletion-vectors.enabled": True, "changelog-producer": producer,
            "deletion-vectors.bitmap64": producer == "input", "target-file-size": "4 kb",
            "num-sorted-run.compaction-trigger": 3,
        },
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))
    writer = TableWriter(table, CompactInCaller)
    expected = {k: f"0-{k}" for k in range(1500)}
    writer.write([("+I", {"k": k, "v": v}) for k, v in expected.items()])
    vectors = 0
    for epoch in range(1, 10):
        changes: list[Change] = []
        for k in noise.sample(range(1600), noise.choice((3, 40))):
            if noise.random() < 0.3:
                changes.append(("-D", {"k": k, "v": expected.pop(k, None)}))
            else:
                expected[k] = f"{epoch}-{k}"
                changes.append(("+U", {"k": k, "v": expected[k]}))
        if noise.random() < 0.4:
            paimon_java.write(location, changes, identifier=epoch, commit_user="java")
        else:
            writer.write(changes)
        if epoch == 6:
            writer.commit.compact_fully()
            assert not any(deletion_vectors(table, latest_of(table)).values())
        vectors += len(deletion_vectors(table, latest_of(table)))
        rows = {row["k"]: row["v"] for row in paimon_java.read(location)}
        assert rows == expected
        ours = stream_app.open_table(str(location)).read().read_all().to_pylist()
        assert {row["k"]: row["v"] for row in ours} == expected
        assert len(ours) == len(expected)
    assert vectors
    assert sound_report(table).replayed_changes
    paimon_java.compact(location)
    assert {row["k"]: row["v"] for row in paimon_java.read(location)} == expected
