"""Compactions look older rows up in local copies, and write the same changes."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.fileio.counted_file_io import RequestCounter, counting_file_io
from stream_app.filestore.local_copies.lookup_copies import (
    DAMAGED,
    EVENTS,
    EVICTED,
    HIT,
    MADE,
    MISS,
)
from stream_app.model.schema.data_type import parse_data_type
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeType,
    DropColumn,
    SchemaChange,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.jobs.table_writer import by_content, read_changes, read_rows
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")
COLUMNS = "a INT NOT NULL, b STRING NOT NULL, v STRING, n BIGINT"
ROWS, EPOCHS, CHANGES = 600, 6, 20
LARGE = 4 << 20
KINDS: dict[str, dict[str, str]] = {
    "lookup": {"changelog_producer": "lookup"},
    "by a column": {"changelog_producer": "lookup", "sequence__field": "n"},
    "partial-update": {"changelog_producer": "lookup", "merge_engine": "partial-update"},
    "deletion vectors": {"deletion_vectors__enabled": "true"},
    "vectors and lookup": {"deletion_vectors__enabled": "true", "changelog_producer": "lookup"},
    "first-row": {"merge_engine": "first-row", "changelog_producer": "lookup"},
}


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local disk of the executor."""
    local = tmp_path / "disk"
    local.mkdir()
    monkeypatch.setenv("TMPDIR", str(local))
    return local


def row(number: int, v: str | None, n: int | None) -> dict[str, Any]:
    return {"a": number % 50, "b": f"b{number}", "v": v, "n": n}


def epochs(chance: random.Random, kinds: tuple[str, ...]) -> list[list[Change]]:
    """Return epochs: the first fills a file of more than 4 MB, others have old and new keys."""
    epochs: list[list[Change]] = [
        [("+I", row(number, chance.randbytes(8000).hex(), number)) for number in range(ROWS)]
    ]
    for epoch in range(EPOCHS):
        changes: list[Change] = []
        for number in chance.sample(range(ROWS + ROWS // 4), CHANGES):
            v = None if chance.random() < 0.3 else f"{epoch}"
            changes.append((chance.choice(kinds), row(number, v, epoch)))
        epochs.append(changes)
    return epochs


def table_after_epochs(
    folder: Path,
    options: dict[str, str],
    epoch_changes: list[list[Change]],
    damaged_file: Path | None = None,
) -> tuple[FileStoreTable, bool]:
    """Write the epochs; return the table, and whether one after the second read the large file."""
    requests = RequestCounter()
    small = SmallTable(
        small_table(folder, COLUMNS, ("a", "b"), **options).table.with_counter(requests)
    )
    small.commit(*epoch_changes[0])
    small.compact()
    small.commit(*epoch_changes[1])
    counting = CountingFileIO()
    small = SmallTable(replace(small.table, file_io=counting_file_io(counting, requests)), epoch=2)
    for number, changes in enumerate(epoch_changes[2:]):
        if damaged_file is not None and number == EPOCHS // 2:
            for path in damaged_file.glob("stream_app-*/lookup/*/*/rows.arrow"):
                path.write_bytes(path.read_bytes()[:1000])
        small.commit(*changes)
        small.compact()
    folder = Path(small.path) / "bucket-0"
    large = [path.name for path in folder.glob("data-*") if path.stat().st_size > LARGE]
    assert len(large) == 1, "it is not compacted"
    return small.table, large[0] in counting.read


@pytest.mark.parametrize("kind", KINDS)
def test_copies_give_the_changes_that_the_files_give(
    tmp_path: Path, disk: Path, kind: str, seed: int
) -> None:
    kinds = (
        ("+I",) if kind == "first-row" else ("+U",) if kind == "partial-update" else ("+U", "-D")
    )
    epoch_changes = epochs(random.Random(seed), kinds)
    table_without_copies, is_read_without_copies = table_after_epochs(
        tmp_path / "without", {**KINDS[kind], "lookup__cache_max_disk_size": "0"}, epoch_changes
    )
    assert not list(disk.iterdir()), "0 asks for no copies"
    table_with_copies, is_read_with_copies = table_after_epochs(
        tmp_path / "with", KINDS[kind], epoch_changes
    )
    table_with_damaged_copies, _ = table_after_epochs(
        tmp_path / "damaged", KINDS[kind], epoch_changes, disk
    )
    for table in (table_with_copies, table_with_damaged_copies):
        assert by_content(read_rows(table)) == by_content(read_rows(table_without_copies))
        if table.options.writes_changelog:
            changes, expected = read_changes(table), read_changes(table_without_copies)
            assert list(changes.values()) == list(expected.values())
        check_chain(table)
    assert (is_read_without_copies, is_read_with_copies) == (True, False)
    without_copies, with_copies, with_damaged_copies = (
        {event: table.store_requests().get(event, 0) for event in EVENTS}
        for table in (table_without_copies, table_with_copies, table_with_damaged_copies)
    )
    assert not any(without_copies.values())
    assert with_copies[MADE] == with_copies[MISS] > 0
    assert with_copies[HIT] > 0 == with_copies[DAMAGED] + with_copies[EVICTED]
    assert with_damaged_copies[MADE] - with_copies[MADE] == with_damaged_copies[DAMAGED] > 0


def drop_and_add(name: str, data_type: str) -> list[list[SchemaChange]]:
    """Return the changes that drop a column, and add it again."""
    return [[DropColumn(name=name)], [AddColumn(name=name, data_type=parse_data_type(data_type))]]


def change_type(name: str, data_type: str) -> list[list[SchemaChange]]:
    """Return the change that gives a column another type."""
    return [[ChangeType(name=name, data_type=parse_data_type(data_type))]]


@pytest.mark.parametrize(
    ("alters", "characters"),
    [
        pytest.param(drop_and_add("v", "STRING"), None, id="added again"),
        pytest.param(change_type("v", "VARCHAR(3)"), 3, id="narrower"),
    ],
)
def test_a_changed_column_has_no_values_of_the_copy_before(
    tmp_path: Path, alters: list[list[SchemaChange]], characters: int | None
) -> None:
    changelogs = []
    for folder, options in (("without", {"lookup__cache_max_disk_size": "0"}), ("with", {})):
        epoch_changes = epochs(random.Random(0), ("+U",))
        small = small_table(
            tmp_path / folder, COLUMNS, ("a", "b"), changelog_producer="lookup", **options
        )
        small.commit(*epoch_changes[0])
        small.compact()
        small.commit(*epoch_changes[1])
        for changes in alters:
            alter_table(open_file_store_table(small.path), changes)
        small = SmallTable(open_file_store_table(small.path), epoch=2)
        small.commit(("+U", row(7, "new", 1)))
        all_changes = [change for epoch in read_changes(small.table).values() for change in epoch]
        old = None if characters is None else epoch_changes[0][7][1]["v"][:characters]
        assert all_changes[-2:] == [("-U", row(7, old, 7)), ("+U", row(7, "new", 1))]
        changelogs.append(all_changes)
    assert changelogs[0] == changelogs[1]
