"""`check` reports each kind of finding in a table with that damage."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.finding import FindingKind
from stream_app.table.check.table_check import TableCheck
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.damaged_table import Damage, Entries, set_value
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of, kinds_in, unchecked_rows

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture(scope="module")
def sound_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_shop(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def shop(tmp_path: Path, sound_shop: Path) -> Damage:
    """A copy to be damaged."""
    return Damage(
        open_file_store_table(str(shutil.copytree(sound_shop, tmp_path / "shop.db" / "orders")))
    )


def made_shop(folder: Path) -> Path:
    """Two days; a compacted bucket, and an epoch behind it whose file is of level 0."""
    small = small_table(
        folder / "shop.db" / "orders",
        "dt STRING, id INT, name STRING",
        ("dt", "id"),
        ("dt",),
        bucket=2,
        changelog_producer="input",
        num_sorted_run__compaction_trigger=2,
    )
    for epoch in range(4):
        small.commit(
            *(
                ("+I", {"dt": f"2026-01-0{number % 2}", "id": number, "name": f"n{epoch}"})
                for number in range(20)
            )
        )
    small.compact()
    later = ({"dt": "2026-01-01", "id": number, "name": "last"} for number in range(20))
    small.commit(*(("+I", row) for row in later))
    return Path(small.path)


def change_first_add(damage: Damage, change: Callable[[ManifestEntry], ManifestEntry]) -> None:
    """Change the first added file of the latest snapshot."""
    damage.delta(lambda entries: with_first_add(entries, change))


def with_first_add(entries: Entries, change: Callable[[ManifestEntry], ManifestEntry]) -> Entries:
    place = next(place for place, entry in enumerate(entries) if entry.kind is FileKind.ADD)
    return [*entries[:place], change(entries[place]), *entries[place + 1 :]]


def delta_file(damage: Damage) -> ManifestEntry:
    return FileStoreScan(damage.table).delta(damage.latest)[0]


def rewrite_first_add(damage: Damage, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of the first added file of the latest snapshot."""
    change_first_add(damage, lambda entry: damage.rewritten(entry, change))


def with_file(entry: ManifestEntry, **changes: Any) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, **changes))


def hint_ahead(damage: Damage) -> None:
    damage.path("snapshot/LATEST").write_text("99")


def hint_hides(damage: Damage) -> None:
    damage.path("snapshot/EARLIEST").write_text("3")


def changelog_hint_ahead(damage: Damage) -> None:
    folder = damage.path("changelog")
    folder.mkdir()
    (folder / "LATEST").write_text("1")


def changelog_gap(damage: Damage) -> None:
    folder = damage.path("changelog")
    folder.mkdir()
    damage.path("snapshot/snapshot-1").rename(folder / "changelog-1")
    damage.path("snapshot/snapshot-2").unlink()
    damage.path("snapshot/EARLIEST").write_text("3")


def consumer_behind(damage: Damage) -> None:
    damage.table.consumers.reset("search", 1)
    damage.path("snapshot/snapshot-1").unlink()
    damage.path("snapshot/EARLIEST").write_text("2")


def consumer_ahead(damage: Damage) -> None:
    damage.table.consumers.reset("search", damage.latest.snapshot_id + 2)


def consumer_cut(damage: Damage) -> None:
    damage.table.consumers.reset("search", 1)
    damage.path("consumer/consumer-search").write_text("{")


def gap(damage: Damage) -> None:
    damage.path("snapshot/snapshot-2").unlink()


def cut_snapshot(damage: Damage) -> None:
    damage.path("snapshot/snapshot-3").write_text('{"version": 3')


def epoch_twice(damage: Damage) -> None:
    damage.snapshot(commit_identifier=0)


def no_schema(damage: Damage) -> None:
    damage.snapshot(schema_id=7)


def wrong_total(damage: Damage) -> None:
    total = damage.latest.total_record_count
    assert total is not None
    damage.snapshot(total_record_count=total + 1)


def wrong_changelog_count(damage: Damage) -> None:
    damage.snapshot(changelog_record_count=1)


def manifest_gone(damage: Damage) -> None:
    name = damage.table.manifests.read_list(damage.latest.delta_manifest_list)[0].file_name
    damage.path(f"manifest/{name}").unlink()


def manifest_list_cut(damage: Damage) -> None:
    path = damage.path(f"manifest/{damage.latest.base_manifest_list}")
    path.write_bytes(path.read_bytes()[:-10])


def counted_wrong(damage: Damage) -> None:
    damage.delta(lambda entries: entries, lambda meta: replace(meta, num_deleted_files=3))


def partition_bounds_wrong(damage: Damage) -> None:
    older = FileStoreScan(damage.table).manifests(damage.table.snapshots.snapshot(1))[0]
    oldest_entries = damage.table.manifests.read_manifest(older.file_name)
    newest_day = delta_file(damage).partition
    day = next(entry.partition for entry in oldest_entries if entry.partition != newest_day)
    damage.delta(
        lambda entries: entries,
        lambda meta: replace(
            meta, partition_stats=replace(meta.partition_stats, min_values=day, max_values=day)
        ),
    )


def deletes_nothing(damage: Damage) -> None:
    damage.delta(lambda entries: [*entries, with_file(entries[0], file_name="x").as_delete()])


def base_loses_a_file(damage: Damage) -> None:
    entries = FileStoreScan(damage.table).live(
        damage.table.snapshots.snapshot(damage.latest.snapshot_id - 1)
    )
    metas = damage.table.manifests.write_manifests(entries[1:])
    name, size = damage.table.manifests.write_list(metas)
    damage.snapshot(base_manifest_list=name, base_manifest_list_size=size)


def file_gone(damage: Damage) -> None:
    damage.file_of(delta_file(damage)).unlink()


def file_cut(damage: Damage) -> None:
    path = damage.file_of(delta_file(damage))
    path.write_bytes(path.read_bytes()[:-1])


def file_of_noise(damage: Damage) -> None:
    path = damage.file_of(delta_file(damage))
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def a_row_less(damage: Damage) -> None:
    rewrite_first_add(damage, lambda rows: rows.slice(0, rows.num_rows - 1))


def deletes_miscounted(damage: Damage) -> None:
    change_first_add(damage, lambda entry: with_file(entry, delete_row_count=1))


def reversed_rows(damage: Damage) -> None:
    rewrite_first_add(damage, lambda rows: rows.take(list(range(rows.num_rows))[::-1]))


def key_range_wrong(damage: Damage) -> None:
    change_first_add(damage, lambda entry: with_file(entry, max_key=entry.file.min_key))


def sequence_numbers_wrong(damage: Damage) -> None:
    change_first_add(damage, lambda entry: with_file(entry, max_sequence_number=10**6))


def value_beyond_bounds(damage: Damage) -> None:
    rewrite_first_add(damage, lambda rows: set_value(rows, "name", "zzz"))


def null_uncounted(damage: Damage) -> None:
    rewrite_first_add(damage, lambda rows: set_value(rows, "name", None))


def overlapping(damage: Damage) -> None:
    scan = FileStoreScan(damage.table)
    levels = (entry.file.level for entry in scan.live(damage.latest))
    compacted_level = next(level for level in levels if level > 0)
    damage.delta(lambda entries: [with_file(entry, level=compacted_level) for entry in entries])


def live_twice(damage: Damage) -> None:
    damage.delta(lambda entries: [*entries, with_file(entries[0], level=3)])


def wrong_bucket(damage: Damage) -> None:
    def move(entry: ManifestEntry) -> ManifestEntry:
        moved_entry = replace(entry, bucket=1 - entry.bucket)
        shutil.copy(damage.file_of(entry), damage.file_of(moved_entry))
        return moved_entry

    change_first_add(damage, move)


def other_number_of_buckets(damage: Damage) -> None:
    damage.delta(lambda entries: [replace(entry, total_buckets=4) for entry in entries])


def wrong_partition(damage: Damage) -> None:
    rewrite_first_add(damage, lambda rows: set_value(rows, "dt", "2026-01-02"))


def a_vector(damage: Damage, name: str, row: int) -> None:
    entry = delta_file(damage)
    vectors = {name: DeletionVector.of_positions([row])}
    damage.index(
        damage.table.deletion_vector_files.write(
            entry.partition, entry.bucket, vectors, shares_file=True
        )
    )


def vector_beyond_the_file(damage: Damage) -> None:
    a_vector(damage, delta_file(damage).file.file_name, 10**6)


def vector_of_nothing(damage: Damage) -> None:
    a_vector(damage, "data-that-is-gone.parquet", 0)


def a_change_lost(damage: Damage) -> None:
    damage.changelog(lambda entries: entries[1:])


def a_change_altered(damage: Damage) -> None:
    def altered(entry: ManifestEntry) -> ManifestEntry:
        return damage.rewritten(entry, lambda rows: set_value(rows, "name", "lasf"))

    damage.changelog(lambda entries: with_first_add(entries, altered))


QUICK: dict[Callable[[Damage], None], set[FindingKind]] = {
    hint_ahead: {FindingKind.HINT},
    hint_hides: {FindingKind.HINT},
    changelog_hint_ahead: {FindingKind.HINT},
    changelog_gap: {FindingKind.SNAPSHOTS},
    consumer_behind: {FindingKind.CONSUMER},
    consumer_ahead: {FindingKind.CONSUMER},
    consumer_cut: {FindingKind.CONSUMER},
    gap: {FindingKind.SNAPSHOTS},
    cut_snapshot: {FindingKind.SNAPSHOTS},
    epoch_twice: {FindingKind.SNAPSHOTS},
    no_schema: {FindingKind.SCHEMA},
    wrong_total: {FindingKind.RECORD_COUNT},
    wrong_changelog_count: {FindingKind.RECORD_COUNT},
    manifest_gone: {FindingKind.MANIFEST},
    manifest_list_cut: {FindingKind.MANIFEST},
    counted_wrong: {FindingKind.MANIFEST},
    partition_bounds_wrong: {FindingKind.MANIFEST},
    deletes_nothing: {FindingKind.MANIFEST, FindingKind.RECORD_COUNT},
    base_loses_a_file: {FindingKind.MANIFEST},
    file_gone: {FindingKind.FILE_MISSING},
    file_cut: {FindingKind.FILE_SIZE},
    key_range_wrong: set(),
    overlapping: {FindingKind.LEVELS},
    live_twice: {FindingKind.LEVELS},
    other_number_of_buckets: {FindingKind.BUCKET},
    vector_of_nothing: {FindingKind.DELETION_VECTOR},
}
DEEP: dict[Callable[[Damage], None], set[FindingKind]] = {
    file_of_noise: {FindingKind.FILE_UNREADABLE},
    a_row_less: {FindingKind.FILE_UNREADABLE},
    deletes_miscounted: {FindingKind.ROW_COUNT},
    reversed_rows: {FindingKind.KEY_ORDER, FindingKind.KEY_RANGE},
    key_range_wrong: {FindingKind.KEY_RANGE},
    sequence_numbers_wrong: {FindingKind.SEQUENCE_NUMBERS},
    value_beyond_bounds: {FindingKind.STATISTICS, FindingKind.CHANGELOG},
    null_uncounted: {FindingKind.STATISTICS, FindingKind.CHANGELOG},
    wrong_bucket: {FindingKind.BUCKET, FindingKind.CHANGELOG},
    wrong_partition: {FindingKind.PARTITION, FindingKind.STATISTICS, FindingKind.CHANGELOG},
    vector_beyond_the_file: {FindingKind.DELETION_VECTOR},
    a_change_lost: {FindingKind.CHANGELOG},
    a_change_altered: {FindingKind.CHANGELOG, FindingKind.STATISTICS},
}


@pytest.mark.parametrize("damage", QUICK, ids=lambda damage: damage.__name__)
def test_damage_is_found_in_the_metadata(shop: Damage, damage: Callable[[Damage], None]) -> None:
    damage(shop)
    assert kinds_in(shop.table, quick=True) == QUICK[damage]


@pytest.mark.parametrize("damage", DEEP, ids=lambda damage: damage.__name__)
def test_damage_is_found_in_the_rows(shop: Damage, damage: Callable[[Damage], None]) -> None:
    damage(shop)
    assert kinds_in(shop.table, quick=True) <= {FindingKind.RECORD_COUNT}
    assert kinds_in(shop.table) >= DEEP[damage]


def test_every_kind_of_finding_of_a_table_is_tested() -> None:
    tested_kinds = set().union(*QUICK.values(), *DEEP.values())
    # test_row_checksum.py, test_double_keys.py, test_hash_index_check.py, test_iceberg_sql.py and
    # test_waiting_rows.py
    of_other_tables = {
        FindingKind.CHECKSUM,
        FindingKind.DOUBLE_KEYS,
        FindingKind.HASH_INDEX,
        FindingKind.ICEBERG,
        FindingKind.WAITING_ROWS,
    }
    of_a_source = {FindingKind.SOURCE, FindingKind.NOT_COMPARED}
    assert tested_kinds == set(FindingKind) - of_a_source - of_other_tables


def test_a_tag_whose_snapshot_has_expired_is_looked_at(shop: Damage) -> None:
    tag = shop.path("tag/tag-first")
    tag.parent.mkdir()
    shop.path("snapshot/snapshot-1").rename(tag)
    shop.path("snapshot/EARLIEST").write_text("2")
    assert findings_of(shop.table) == []
    tagged_snapshot = shop.table.tags.tags()[0].snapshot
    shop.file_of(FileStoreScan(shop.table).delta(tagged_snapshot)[0]).unlink()
    assert kinds_in(shop.table, quick=True) == {FindingKind.FILE_MISSING}


def test_a_table_that_we_do_not_read_is_not_called_sound(shop: Damage) -> None:
    """The rows of such a table may have another order than ours."""
    schema = replace(shop.table.schema, options={"pk-clustering-override": "true", "bucket": "2"})
    problem = unchecked_rows(replace(shop.table, schema=schema))
    assert "rows were not checked: stream_app cannot read" in problem
    assert "pk-clustering-override = true" in problem


def test_options_that_we_do_not_know_are_reported(shop: Damage) -> None:
    schema = replace(shop.table.schema, options={"some.later.option": "1", "bucket": "2"})
    [finding] = findings_of(replace(shop.table, schema=schema), quick=True)
    assert finding.kind is FindingKind.NOT_COMPARED
    assert "does not know may change them: some.later.option" in finding.problem


def test_a_file_of_another_format_is_reported(shop: Damage) -> None:
    def as_lance(entry: ManifestEntry) -> ManifestEntry:
        name = entry.file.file_name.replace(".parquet", ".lance")
        path = shop.file_of(entry)
        path.rename(path.with_name(name))
        return with_file(entry, file_name=name)

    change_first_add(shop, as_lance)
    check = TableCheck(shop.table, is_quick=False, progress=lambda *_: None)
    assert list(check.findings()) == []
    assert len(check.report.unread_files) == 1
    assert "is not one of parquet, orc, avro" in check.report.unread_files[0]
