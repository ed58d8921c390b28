"""Lookups find rows in local copies of data files, and replace broken and old copies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_app.filestore.local_copies.lookup_copies import (
    COPIED_BYTES,
    CopiedFile,
    LookupCopies,
    copies_size,
)
from stream_app.filestore.local_copies.lookup_copy import LookupCopy
from stream_app.format.bucket_hash import MurmurHashes
from tests.support.tables.small_table import StandingClock

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
HOUR_MS = 3_600_000


def rows(count: int, batch_rows: int = 100) -> Iterator[pa.RecordBatch]:
    keys = np.arange(count)
    whole = pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.array([f"v{key}" for key in keys])], schema=SCHEMA
    )
    for start in range(0, count, batch_rows):
        yield whole.slice(start, batch_rows)


def hashes_of(batch: pa.RecordBatch) -> MurmurHashes:
    """Two keys to a hash, in no order."""
    keys = batch.column("k").to_numpy()
    hashes: MurmurHashes = ((keys // 2) * 2_654_435_761 % 2**32).astype(np.uint32)
    return hashes


def copies_in(
    folder: Path, clock: StandingClock | None = None, most: int | None = None, table: str = "t"
) -> LookupCopies:
    return LookupCopies(folder / "lookup", table, HOUR_MS, most, clock or StandingClock())


def file_at(
    path: str, schema: pa.Schema = SCHEMA, columns: str = "0 BIGINT, 1 STRING"
) -> CopiedFile:
    return CopiedFile(path, tuple(columns.split(", ")), schema, 250)


def made_copy(copies: LookupCopies, path: str) -> LookupCopy | None:
    return copies.create(file_at(path), rows(250), hashes_of)


def findings_of(copy: LookupCopy, *keys: int) -> list[tuple[int, str]]:
    key_batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.int64())], ["k"])
    rows = []
    for batch, positions in copy.rows_of(hashes_of(key_batch), ["v"]):
        assert batch.schema.names == ["v"]
        rows += list(zip(positions.tolist(), batch.column("v").to_pylist(), strict=True))
    return rows


def folders(copies: LookupCopies) -> list[Path]:
    return sorted(copies.root.glob("*/*"))


def test_rows_of_a_hash_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    copy = made_copy(copies_in(tmp_path), "a")
    assert copy is not None
    assert findings_of(copy, 249, 7, 130, 131) == [
        (6, "v6"), (7, "v7"), (130, "v130"), (131, "v131"), (248, "v248"), (249, "v249"),
    ]  # fmt: skip
    assert findings_of(copy, 250, 999) == []


def test_all_tasks_of_a_machine_share_a_copy(tmp_path: Path) -> None:
    ours, theirs = copies_in(tmp_path), copies_in(tmp_path)

    def rows_beside_another_task() -> Iterator[pa.RecordBatch]:
        yield from rows(250)
        assert made_copy(theirs, "a") is not None

    copy = ours.create(file_at("a"), rows_beside_another_task(), hashes_of)
    assert copy is not None
    assert findings_of(copy, 8) == [(8, "v8"), (9, "v9")]
    assert len(folders(ours)) == 1
    other_columns = SCHEMA.append(pa.field("w", pa.string()))
    assert ours.find(file_at("a", other_columns)) is None
    added_again, narrower = "0 BIGINT, 2 STRING", "0 BIGINT, 1 VARCHAR(2)"
    assert ours.find(file_at("a", columns=added_again)) is None
    assert ours.find(file_at("a", columns=narrower)) is None, "its values are cut"
    assert ours.find(file_at("b")) is None


@pytest.mark.parametrize("name", ["rows.arrow", "index.npy", "starts.npy"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "other bytes", "gone"])
def test_a_damaged_copy_is_deleted_and_made_anew(tmp_path: Path, name: str, damage: str) -> None:
    copies = copies_in(tmp_path)
    made_copy(copies, "a")
    (folder,) = folders(copies)
    data = (folder / name).read_bytes()
    match damage:
        case "cut":
            (folder / name).write_bytes(data[:-9])
        case "emptied":
            (folder / name).write_bytes(b"")
        case "other bytes":
            (folder / name).write_bytes(b"x" * len(data))
        case "gone":
            (folder / name).unlink()
    assert copies.find(file_at("a")) is None
    copy = made_copy(copies, "a")
    assert copy is not None
    assert findings_of(copy, 8) == [(8, "v8"), (9, "v9")]


@pytest.mark.slow
def test_a_task_killed_while_it_copies_leaves_nothing_that_is_found(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom pathlib import Path\n"
        "from tests.unit.filestore.test_lookup_copies import *\n"
        f"copies = copies_in(Path({str(tmp_path)!r}))\n"
        "def killed():\n    yield from rows(200)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "copies.create(file_at('a'), killed(), hashes_of)\n"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run([sys.executable, "-c", script], cwd=root, check=False)
    assert result.returncode == -9
    clock = StandingClock()
    copies = copies_in(tmp_path, clock)
    (folder,) = folders(copies)
    assert copies.find(file_at("a")) is None
    assert made_copy(copies, "a") is not None
    assert folder in folders(copies)
    clock.millis = int(folder.stat().st_mtime * 1000) + 24 * HOUR_MS
    made_copy(copies, "b")
    assert folder not in folders(copies)


def test_unused_copies_go_after_the_retention_also_those_of_other_tables(tmp_path: Path) -> None:
    clock = StandingClock()
    copies, other_copies = copies_in(tmp_path, clock), copies_in(tmp_path, clock, table="other")
    made_copy(copies, "used")
    made_copy(copies, "unused")
    made_copy(other_copies, "unused")
    clock.millis += HOUR_MS - 1
    assert copies.find(file_at("used")) is not None
    clock.millis += 1
    copies.delete_outdated_copies()
    assert copies.find(file_at("used")) is not None
    assert len(folders(copies)) == 1
    assert len(list(copies.root.iterdir())) == 1


def test_the_least_recently_used_copies_make_room(tmp_path: Path) -> None:
    clock = StandingClock()
    made_copy(copies_in(tmp_path, clock), "a")
    (first,) = folders(copies_in(tmp_path))
    size = sum(file.stat().st_size for file in first.iterdir())
    counts = Counter[str]()
    copies = replace(copies_in(tmp_path, clock, most=size * 2), add_counts=counts.update)
    for path in "bc":
        clock.millis += 1000
        made_copy(copies, path)
    clock.millis += 1000
    assert copies.find(file_at("b")) is not None
    clock.millis += 1000
    mapped_copy = copies.find(file_at("b"))
    made_copy(copies, "d")
    assert counts == {
        "lookup_made": 3,
        COPIED_BYTES: 3 * size,
        "lookup_hit": 2,
        "lookup_evicted": 2,
    }
    assert copies_size(copies.root) == 2 * size
    assert [path for path in "abcd" if copies.find(file_at(path))] == ["b", "d"]
    clock.millis += 1000
    copies.find(file_at("d"))
    made_copy(copies, "e")
    assert copies.find(file_at("b")) is None
    assert mapped_copy is not None
    assert findings_of(mapped_copy, 8) == [(8, "v8"), (9, "v9")], "it is mapped"


def test_a_file_that_does_not_fit_is_not_copied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    small = copies_in(tmp_path, most=1000)
    assert made_copy(small, "a") is None
    assert folders(small) == []
    (tmp_path / "file").write_text("")
    nowhere = copies_in(tmp_path / "file")
    assert made_copy(nowhere, "a") is None
    assert "no local copy of a for lookups" in caplog.text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("whose", ["root", "parent"])
def test_a_folder_of_another_user_is_not_used(tmp_path: Path, whose: str) -> None:
    copies = copies_in(tmp_path / "stream_app")
    assert made_copy(copies, "a") is not None
    os.chown(copies.root if whose == "root" else copies.root.parent, 4711, 4711)
    assert copies.find(file_at("a")) is None
    assert made_copy(copies, "a") is None
