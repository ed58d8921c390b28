"""Compactions that look older rows up in local copies: the same changes, and no file is read."""

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
    """The first one fills a file of more than 4 MB; the others have old keys and new ones."""
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


def written(
    folder: Path,
    options: dict[str, str],
    epoch_changes: list[list[Change]],
    damaged: Path | None = None,
) -> tuple[FileStoreTable, bool]:
    """A table with these epochs; and whether one read the large file, after the first small one."""
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
        if damaged is not None and number == EPOCHS // 2:
            for path in damaged.glob("stream_app-*/lookup/*/*/rows.arrow"):
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
    without, was_read = written(
        tmp_path / "without", {**KINDS[kind], "lookup__cache_max_disk_size": "0"}, epoch_changes
    )
    assert not list(disk.iterdir()), "0 asks for no copies"
    with_, is_read = written(tmp_path / "with", KINDS[kind], epoch_changes)
    damaged, _ = written(tmp_path / "damaged", KINDS[kind], epoch_changes, disk)
    for table in (with_, damaged):
        assert by_content(read_rows(table)) == by_content(read_rows(without))
        if table.options.writes_changelog:
            changes, expected = read_changes(table), read_changes(without)
            assert list(changes.values()) == list(expected.values())
        check_chain(table)
    assert (was_read, is_read) == (True, False)
    of_none, of_whole, of_damaged = (
        {event: table.store_requests().get(event, 0) for event in EVENTS}
        for table in (without, with_, damaged)
    )
    assert not any(of_none.values())
    assert of_whole[MADE] == of_whole[MISS] > 0
    assert of_whole[HIT] > 0 == of_whole[DAMAGED] + of_whole[EVICTED]
    assert of_damaged[MADE] - of_whole[MADE] == of_damaged[DAMAGED] > 0


def again(name: str, data_type: str) -> list[list[SchemaChange]]:
    """A column is dropped, and then added again."""
    return [[DropColumn(name=name)], [AddColumn(name=name, data_type=parse_data_type(data_type))]]


def narrower(name: str, data_type: str) -> list[list[SchemaChange]]:
    """A column gets another type."""
    return [[ChangeType(name=name, data_type=parse_data_type(data_type))]]


@pytest.mark.parametrize(
    ("alters", "characters"),
    [
        pytest.param(again("v", "STRING"), None, id="added again"),
        pytest.param(narrower("v", "VARCHAR(3)"), 3, id="narrower"),
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
