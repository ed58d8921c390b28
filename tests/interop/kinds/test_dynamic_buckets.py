"""Paimon's Java and stream_app write tables with ``bucket = -1`` and a key in turns."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.format.binary_row import encode_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.schema.data_type import parse_columns
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.index_manifests import index_manifest
from tests.support.jobs.table_writer import CompactInCaller, TableWriter
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("no", "STRING NOT NULL"),
           ("v", "STRING")]  # fmt: skip
KEY_TYPES = parse_columns("id BIGINT NOT NULL, no STRING NOT NULL").types
Rows = dict[tuple[str, int, str], str]
Buckets = dict[tuple[str, int], set[int]]


def hash_of(key: tuple[str, int, str]) -> int:
    return murmur_hash(encode_row(key[1:], KEY_TYPES))


def some_changes(noise: random.Random, rows: Rows, epoch: int) -> list[Change]:
    """Changes of keys that are there and of new ones; `rows` becomes what they leave."""
    changes: list[Change] = []
    for _ in range(noise.choice((3, 60))):
        number = noise.randrange(60 + 25 * epoch)
        key = (f"d{number % 2}", number, "n" * (number % 13))
        row: dict[str, Any] = {"dt": key[0], "id": key[1], "no": key[2], "v": f"{epoch}"}
        if noise.random() < 0.2:
            rows.pop(key, None)
            changes.append(("-D", row))
        else:
            rows[key] = row["v"]
            changes.append(("+I", row))
    return changes


def by_key(rows: list[dict[str, Any]]) -> Rows:
    rows_by_key = {(row["dt"], row["id"], row["no"]): row["v"] for row in rows}
    assert len(rows_by_key) == len(rows), "a key has two rows"
    return rows_by_key


def index_of(paimon_java: PaimonJava, table: FileStoreTable) -> Buckets:
    """The index, which Java and we read alike: each hash is in one bucket of its partition."""
    theirs = {
        (partition.strip("/"), bucket): set(hashes)
        for (partition, bucket), hashes in paimon_java.hashes(table.location).items()
    }
    latest = table.snapshots.latest()
    assert latest is not None
    ours = {
        (table.paths.partition_path(partition), bucket): set(
            table.hash_index_files.read(entry).tolist()
        )
        for partition, buckets in index_manifest(table, latest.index_manifest).hash_entries.items()
        for bucket, entry in buckets.items()
    }
    assert ours == theirs
    counts = Counter(
        (partition, key) for (partition, _), of_bucket in ours.items() for key in of_bucket
    )
    assert max(counts.values()) == 1
    return ours


def grew(before: Buckets, after: Buckets) -> bool:
    """Return whether each hash has kept its bucket."""
    return all(hashes <= after.get(bucket, set()) for bucket, hashes in before.items())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dynamic-bucket.initial-buckets": 3, "deletion-vectors.enabled": True},
        {"dynamic-bucket.max-buckets": 2, "changelog-producer": "lookup"},
    ],
    ids=["one open", "three open", "no more than two"],
)
def test_we_and_java_go_on_with_each_others_buckets(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, options: dict[str, Any]
) -> None:
    location = tmp_path / "shop.db" / "orders"
    noise = random.Random(f"{seed} {sorted(options)}")
    paimon_java.create(
        location, COLUMNS, primary_keys=["dt", "id", "no"], partition_keys=["dt"],
        options={"bucket": -1, "dynamic-bucket.target-row-num": 40, **options},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))
    writer = TableWriter(table, CompactInCaller)
    rows: Rows = {}
    index: Buckets = {}
    for epoch in range(12):
        changes = some_changes(noise, rows, epoch)
        if noise.random() < 0.5:
            paimon_java.write(location, changes, identifier=epoch, commit_user="java")
        else:
            writer.write(changes)
        if epoch % 5 == 4:
            paimon_java.compact(location)
        before, index = index, index_of(paimon_java, table)
        assert grew(before, index)
        hashes = {(key[0], hash_of(key)) for key in rows}
        assert hashes <= {
            (key[0][3:], value) for key, numbers_of_key in index.items() for value in numbers_of_key
        }
    assert by_key(paimon_java.read(location)) == rows
    if "deletion-vectors.enabled" not in options:
        assert by_key(stream_app.open_table(str(location)).read().read_all().to_pylist()) == rows
    writer.commit.compact_fully()
    assert by_key(stream_app.open_table(str(location)).read().read_all().to_pylist()) == rows
    assert index_of(paimon_java, table) == index
    assert len({bucket for _, bucket in index}) > 1
    if most := options.get("dynamic-bucket.max-buckets"):
        assert {bucket for _, bucket in index} <= set(range(most))
    assert {file["total_buckets"] for file in paimon_java.files(location)} == {-1}
    sound_report(table)
