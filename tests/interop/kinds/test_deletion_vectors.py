"""stream_app reads deletion vectors of Paimon's Java; Java and PyPaimon read ours."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stream_app
from stream_app.format.deletion_vector import DeletionVector, live_rows
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind
from stream_app.planning.commit.index_changes import index_conflict
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.deletion_vectors import (
    deletion_vectors,
    index_changes,
    new_index_manifest,
)
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.interop.compacted_tables import latest_of
from tests.support.judges.normal_rows import Row, normal_rows, sorted_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
APPEND_KINDS = [
    pytest.param({"bucket": -1}, id="no-buckets"),
    pytest.param({"bucket": 2, "bucket-key": "k"}, id="buckets"),
]
BITS = [pytest.param(False, id="32-bit"), pytest.param(True, id="64-bit")]


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "shop.db" / "orders"


def create_append(
    java: PaimonJava, location: Path, *, is_64: bool = False, **options: Any
) -> FileStoreTable:
    """Three files of 100 rows in partition a, and one in partition b; more with buckets."""
    java.create(
        location, [("dt", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")],
        partition_keys=["dt"],
        options={
            "deletion-vectors.enabled": True, "deletion-vectors.bitmap64": is_64,
            "write-only": True, **options,
        },
    )  # fmt: skip
    for number, partition in enumerate("aaab"):
        rows = range(100 * number, 100 * number + 100)
        java.batch_write(location, [("+I", {"dt": partition, "k": k, "v": f"v{k}"}) for k in rows])
    return open_file_store_table(str(location))


def live_of(table: FileStoreTable) -> list[ManifestEntry]:
    """Live files, those of the first rows first."""
    live = FileStoreScan(table).live(latest_of(table))
    return sorted(live, key=lambda entry: min(keys_of(table, entry)))


def stored_file(table: FileStoreTable, entry: ManifestEntry) -> pq.ParquetFile:
    return pq.ParquetFile(table.paths.data_file(entry.partition, entry.bucket, entry.file))


def keys_of(table: FileStoreTable, entry: ManifestEntry) -> list[int]:
    return stored_file(table, entry).read(["k"])["k"].to_pylist()


def rows_of(table: FileStoreTable, entry: ManifestEntry) -> pa.Table:
    """The rows of a file that are left, read in small batches."""
    file = stored_file(table, entry)
    vectors = deletion_vectors(table, latest_of(table)).get(entry.bucket_id, {})
    batches = file.iter_batches(batch_size=7)
    if entry.file.file_name in vectors:
        numbered_batches = zip(count(0, 7), batches, strict=False)
        batches = live_rows(numbered_batches, vectors[entry.file.file_name], entry.file.row_count)
    return pa.Table.from_batches(batches, file.schema_arrow)


def rows_left(table: FileStoreTable, entries: Sequence[ManifestEntry]) -> list[Row]:
    return [
        row
        for entry in entries
        for row in normal_rows(rows_of(table, entry).select(table.schema.fields.names))
    ]


def assert_all_read(
    java: PaimonJava,
    table: FileStoreTable,
    deleted_keys: set[int],
    pypaimon: PyPaimonReader | None = None,
) -> None:
    """Java, we and, if asked, PyPaimon read all 400 rows but those that are gone."""
    expected = [
        {"dt": "b" if k >= 300 else "a", "k": k, "v": f"v{k}"}
        for k in range(400)
        if k not in deleted_keys
    ]
    assert sorted_rows(java.read(table.location)) == sorted_rows(expected)
    assert sorted_rows(rows_left(table, live_of(table))) == sorted_rows(expected)
    if pypaimon is not None:
        assert sorted_rows(normal_rows(pypaimon.read(table.location))) == sorted_rows(expected)


@pytest.mark.parametrize("is_64", BITS)
@pytest.mark.parametrize("kind", APPEND_KINDS)
def test_we_read_the_vectors_of_javas_deletes(
    paimon_java: PaimonJava, location: Path, kind: dict[str, Any], is_64: bool
) -> None:
    table = create_append(paimon_java, location, is_64=is_64, **kind)
    first, second, *_, last = live_of(table)
    deletes: list[dict[ManifestEntry, Sequence[int]]] = [
        {first: [0, 1, 20]},
        {first: [1, 2, 21], second: [5]},
        {last: range(len(keys_of(table, last)))},
    ]
    deleted_keys: set[int] = set()
    for places in deletes:
        paimon_java.delete_rows(
            location, {entry.file.file_name: rows for entry, rows in places.items()}
        )
        deleted_keys |= {
            keys_of(table, entry)[row] for entry, rows in places.items() for row in rows
        }
        assert_all_read(paimon_java, table, deleted_keys)
    vectors = deletion_vectors(table, latest_of(table))
    positions_of_file = vectors[first.bucket_id][first.file.file_name]
    assert positions_of_file.positions().tolist() == [0, 1, 2, 20, 21]
    assert {vector.is_64 for bucket in vectors.values() for vector in bucket.values()} == {is_64}


@pytest.mark.parametrize("is_64", BITS)
def test_we_read_the_vectors_of_javas_primary_key_tables(
    paimon_java: PaimonJava, location: Path, is_64: bool
) -> None:
    paimon_java.create(
        location, [("k", "INT NOT NULL"), ("v", "STRING")], primary_keys=["k"],
        options={
            "bucket": 2, "deletion-vectors.enabled": True, "deletion-vectors.bitmap64": is_64,
        },
    )  # fmt: skip
    paimon_java.write(location, [("+I", {"k": k, "v": "old"}) for k in range(200)], identifier=1)
    paimon_java.compact(location)
    changes = [("+U", {"k": k, "v": "new"}) for k in range(0, 200, 7)]
    changes += [("-D", {"k": k, "v": "old"}) for k in range(1, 200, 11)]
    paimon_java.write(location, changes, identifier=2)

    table = open_file_store_table(str(location))
    vectors = deletion_vectors(table, latest_of(table))
    assert {bucket for _, bucket in vectors} == {0, 1}
    assert {vector.is_64 for bucket in vectors.values() for vector in bucket.values()} == {is_64}
    # What lies in level 0 is not read before it is compacted.
    entries = [entry for entry in live_of(table) if entry.file.level > 0]
    assert sorted_rows(rows_left(table, entries)) == sorted_rows(paimon_java.read(location))
    assert "new" in {row["v"] for row in rows_left(table, entries)}


@pytest.mark.parametrize("is_64", BITS)
def test_we_read_primary_key_tables_that_java_merges_by_vectors(
    paimon_java: PaimonJava, location: Path, seed: int, is_64: bool
) -> None:
    """The test reads all rows, some columns, by conditions on keys and values, and in threads."""
    noise = random.Random(seed)
    paimon_java.create(
        location, [("k", "INT NOT NULL"), ("v", "STRING"), ("n", "BIGINT")], primary_keys=["k"],
        options={
            "bucket": 2, "deletion-vectors.enabled": True, "deletion-vectors.bitmap64": is_64,
            "num-sorted-run.compaction-trigger": 4,
            "changelog-producer": "lookup" if is_64 else "none",
        },
    )  # fmt: skip
    vectors = 0
    for identifier in range(8):
        changes = [
            (noise.choice(["+U", "+U", "-D"]), {"k": k, "v": f"{identifier}-{k}", "n": k * 3})
            for k in noise.sample(range(300), 80)
        ]
        paimon_java.write(location, changes, identifier=identifier, wait_compaction=identifier != 5)
        table = stream_app.open_table(location)
        expected = paimon_java.read(location)
        assert sorted_rows(normal_rows(table.read().read_all())) == sorted_rows(expected)
        narrow = normal_rows(table.read(columns=["v"], where="n >= 300 AND k < 200").read_all())
        assert sorted_rows(narrow) == sorted_rows(
            [{"v": row["v"]} for row in expected if row["n"] >= 300 and row["k"] < 200]
        )
        vectors += len(
            deletion_vectors(open_file_store_table(str(location)), latest_of(table.table))
        )
    assert vectors
    assert sound_report(table.table).replayed_changes[0].startswith("snapshots 1 to")
    paimon_java.expire(location, retain_max=4, retain_min=4)
    assert "on top of" in sound_report(table.table).replayed_changes[0]


def publish(
    table: FileStoreTable, kind: CommitKind, changes: Sequence[IndexManifestEntry],
    delta: Sequence[ManifestEntry] = (),
) -> None:  # fmt: skip
    """A snapshot by hand, with changes of index files and data files."""
    latest = latest_of(table)
    names = {entry.file.file_name for entry in FileStoreScan(table).live(latest)}
    deleted_names = {entry.file.file_name for entry in delta if entry.kind is FileKind.DELETE}
    names = (names | {entry.file.file_name for entry in delta}) - deleted_names
    index = table.manifests.read_index_manifest(latest.index_manifest)
    problem = index_conflict(
        index, changes, deleted_names=deleted_names, live_names=names,
        needs_one_file=table.kind_traits.has_buckets,
    )  # fmt: skip
    assert problem is None
    files = table.manifests
    base, base_size = files.write_list(FileStoreScan(table).manifests(latest))
    delta_list, delta_size = files.write_list(files.write_manifests(delta))
    rows = sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in delta
    )
    assert latest.total_record_count is not None
    number = latest.snapshot_id + 1
    assert table.snapshots.publish(
        replace(
            latest, snapshot_id=number, commit_kind=kind, commit_user="ours",
            base_manifest_list=base, base_manifest_list_size=base_size,
            delta_manifest_list=delta_list, delta_manifest_list_size=delta_size,
            index_manifest=new_index_manifest(table, latest, changes),
            delta_record_count=rows, total_record_count=latest.total_record_count + rows,
        )
    )  # fmt: skip
    table.snapshots.write_hint_and_reread(number)


def delete_rows(
    table: FileStoreTable, places: dict[ManifestEntry, Sequence[int]], *, is_64: bool
) -> set[int]:
    """Deletes rows as an OVERWRITE of ours; their keys."""
    for entry, rows in places.items():
        live = table.manifests.read_index_manifest(latest_of(table).index_manifest)
        vector = DeletionVector.of_positions(rows, has_64_bits=is_64)
        bucket = entry.bucket_id
        changes = index_changes(table, live, bucket, deleted_rows={entry.file.file_name: vector})
        publish(table, CommitKind.OVERWRITE, changes)
    return {keys_of(table, entry)[row] for entry, rows in places.items() for row in rows}


def compact(table: FileStoreTable, entry: ManifestEntry) -> None:
    """Writes one file again without its deleted rows, as a COMPACT of ours."""
    rows = rows_of(table, entry)
    name = entry.file.file_name.replace("data-", "data-anew-")
    path = Path(table.paths.bucket_folder(entry.partition, entry.bucket)) / name
    pq.write_table(rows, path)
    file = replace(
        entry.file, file_name=name, row_count=rows.num_rows, file_size=path.stat().st_size
    )
    live = table.manifests.read_index_manifest(latest_of(table).index_manifest)
    bucket = entry.bucket_id
    changes = index_changes(table, live, bucket, deleted_names=[entry.file.file_name])
    publish(table, CommitKind.COMPACT, changes, [entry.as_delete(), replace(entry, file=file)])


@pytest.mark.parametrize("is_64", BITS)
@pytest.mark.parametrize("kind", APPEND_KINDS)
def test_java_and_pypaimon_honour_our_vectors(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, location: Path, kind: dict[str, Any],
    is_64: bool,
) -> None:  # fmt: skip
    table = create_append(paimon_java, location, is_64=is_64, **kind)
    # PyPaimon has no 64-bit vectors.
    other_reader = None if is_64 else pypaimon
    first, second, *_, last = live_of(table)
    deleted_keys = delete_rows(table, {first: [0, 3, 30], second: [1], last: [2]}, is_64=is_64)
    assert_all_read(paimon_java, table, deleted_keys, other_reader)

    # Java deletes further rows beside and among ours, and we beside Java's.
    paimon_java.delete_rows(location, {first.file.file_name: [3, 4], last.file.file_name: [5]})
    deleted_keys |= {keys_of(table, first)[4], keys_of(table, last)[5]}
    assert_all_read(paimon_java, table, deleted_keys, other_reader)
    deleted_keys |= delete_rows(table, {first: [5], second: range(10, 20)}, is_64=is_64)
    assert_all_read(paimon_java, table, deleted_keys, other_reader)

    compact(table, first)
    assert_all_read(paimon_java, table, deleted_keys, other_reader)
    vectors = deletion_vectors(table, latest_of(table))
    assert first.file.file_name not in vectors.get(first.bucket_id, {})
    for entry in (second, last):
        compact(table, entry)
    assert_all_read(paimon_java, table, deleted_keys, other_reader)
    assert deletion_vectors(table, latest_of(table)) == {}

    [new_entry, *_] = live_of(table)
    paimon_java.delete_rows(location, {new_entry.file.file_name: [0]})
    deleted_keys |= {keys_of(table, new_entry)[0]}
    assert_all_read(paimon_java, table, deleted_keys, other_reader)


@pytest.mark.parametrize("is_64", BITS)
def test_java_compacts_what_our_vectors_delete(
    paimon_java: PaimonJava, location: Path, is_64: bool
) -> None:
    table = create_append(paimon_java, location, is_64=is_64, **{"bucket": 1, "bucket-key": "k"})
    *in_a, _, last = live_of(table)
    deleted_keys = delete_rows(table, {in_a[0]: [0, 3], in_a[1]: [1], last: [2]}, is_64=is_64)
    paimon_java.compact(location)
    assert_all_read(paimon_java, table, deleted_keys)
    names = {entry.file.file_name for entry in live_of(table)}
    assert names.isdisjoint(entry.file.file_name for entry in (*in_a, last))

    # Java leaves files without a vector behind, beside which no second one may lie.
    vectors = deletion_vectors(table, latest_of(table))
    assert vectors == {(entry.partition, 0): {} for entry in (in_a[0], last)}
    deleted_keys |= delete_rows(table, {live_of(table)[0]: [7]}, is_64=is_64)
    assert_all_read(paimon_java, table, deleted_keys)


@pytest.mark.parametrize("kind", APPEND_KINDS)
def test_java_expires_only_what_our_snapshots_do_not_need(
    paimon_java: PaimonJava, location: Path, kind: dict[str, Any]
) -> None:
    table = create_append(paimon_java, location, **kind)
    first, second, *_ = live_of(table)
    paimon_java.delete_rows(location, {first.file.file_name: [0, 1]})
    deleted_keys = {keys_of(table, first)[row] for row in (0, 1)}
    deleted_keys |= delete_rows(table, {first: [2], second: [7]}, is_64=False)
    compact(table, first)
    paimon_java.expire(location)
    assert len(table.snapshots.ids()) == 1
    assert_all_read(paimon_java, table, deleted_keys)
    entries = table.manifests.read_index_manifest(latest_of(table).index_manifest)
    index_file_names = {entry.index_file.file_name for entry in entries}
    assert {path.name for path in (location / "index").iterdir()} == index_file_names
    manifests = {path.name for path in (location / "manifest").glob("index-manifest-*")}
    assert manifests == {latest_of(table).index_manifest}


@pytest.mark.parametrize("kind", APPEND_KINDS)
def test_rows_that_java_deletes_while_we_compact_are_a_conflict(
    paimon_java: PaimonJava, location: Path, kind: dict[str, Any]
) -> None:
    table = create_append(paimon_java, location, **kind)
    first = live_of(table)[0]
    name = first.file.file_name

    def index() -> list[IndexManifestEntry]:
        return table.manifests.read_index_manifest(latest_of(table).index_manifest)

    def problem(changes: Sequence[IndexManifestEntry]) -> str | None:
        return index_conflict(
            index(), changes, deleted_names={name}, live_names=(),
            needs_one_file=table.kind_traits.has_buckets,
        )  # fmt: skip

    bucket = first.bucket_id
    before_first = index_changes(table, index(), bucket, deleted_names=[name])
    assert problem(before_first) is None
    paimon_java.delete_rows(location, {name: [0]})
    assert (
        problem(before_first)
        == f"rows of {name}, which the commit replaces, were deleted meanwhile"
    )

    before_second = index_changes(table, index(), bucket, deleted_names=[name])
    assert problem(before_second) is None
    [old] = index()
    paimon_java.delete_rows(location, {name: [1]})
    assert problem(before_second) == f"index file {old.index_file.file_name} is gone"
