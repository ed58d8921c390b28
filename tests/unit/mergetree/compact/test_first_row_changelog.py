"""Rows of level 0 whose key lies above the output are dropped, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from stream_app.mergetree.changelog.before_row_lookup import FirstRowChangelog, HigherLevelLookup
from stream_app.mergetree.changelog.changelog_rewriter import ChangelogRewriter
from stream_app.mergetree.compact.compact_manager import files_above
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.levels import Levels
from stream_app.mergetree.merge_engines.first_row import FirstRow
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.schema.data_type import parse_columns
from tests.support.tables.lsm_files import MemoryFiles, a_layout

KEYS = {"integers": ("k INT NOT NULL", ("k",)), "texts": ("j INT NOT NULL, k STRING", ("k", "j"))}


@dataclass
class KeyFiles:
    """Reads the key columns of files, and counts them."""

    files: MemoryFiles
    layout: KeyValueLayout
    opened_names: list[str]

    def read_with_positions(
        self, file: DataFileMeta
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        self.opened_names.append(file.file_name)
        for batch, places in self.files.read_with_positions(file):
            yield batch.select(list(self.layout.schema.names)), places


@dataclass
class Bucket:
    """Files of a table of first rows."""

    kind: str
    files: MemoryFiles
    numbers: int = 0

    @classmethod
    def of(cls, kind: str) -> Bucket:
        columns, keys = KEYS[kind]
        layout = a_layout(f"{columns}, v INT", *keys)
        types = tuple(parse_columns(columns).project(keys).types)
        return cls(kind, MemoryFiles(layout, types, rows_per_file=3, read_rows=2))

    def store(self, name: str, keys: list[int], level: int) -> DataFileMeta:
        rows = []
        for key in sorted(keys):
            self.numbers += 1
            row = {"_SEQUENCE_NUMBER": self.numbers, "_VALUE_KIND": 0, "v": self.numbers}
            rows.append(row | ({"k": key} if self.kind == "integers" else self.text_key(key)))
        batch = pa.RecordBatch.from_pylist(rows, schema=self.files.layout.schema)
        return self.files.store(name, batch, level, FileSource.APPEND)

    @staticmethod
    def text_key(key: int) -> dict[str, object]:
        return {"k": f"{key // 3:03}", "j": key % 3}

    def compact(
        self, unit: list[DataFileMeta], above: list[DataFileMeta], *, small: int = 0
    ) -> tuple[dict[int, int], list[str], set[str]]:
        """Values by key, the files whose keys were read, the files that were only lifted."""
        names = self.files.layout.key_names
        fields = [self.files.layout.schema.field(name) for name in names]
        layout = KeyValueLayout(pa.schema(fields), names)
        opened_names: list[str] = []
        compact_unit = CompactUnit(2, tuple(unit), "")
        runs = Levels([*unit, *above], num_levels=6, key_of=self.files.key_of).level_sorted_runs()
        looked_up = files_above(runs, compact_unit, self.files.key_of)
        keys = HigherLevelLookup(
            layout, KeyFiles(self.files, layout, opened_names), looked_up, self.files.key_of
        )
        rewriter = ChangelogRewriter(
            CompactRewriter(self.files.layout, FirstRow(), self.files),
            FirstRowChangelog(5, keys),
            writes_changelog=False,
        )
        request = CompactRequest(
            partition=b"", bucket=0, unit=compact_unit, drops_deletes=False, max_level=5,
            files_above=looked_up,
        )  # fmt: skip
        change = CompactTask(request, rewriter, self.files.key_of, small).run()
        rows = self.files.rows_of(list(change.added_files))
        rows_by_key = {self.number(row): row["v"] for row in rows}
        assert len(rows_by_key) == len(rows)
        return (
            rows_by_key,
            opened_names,
            {file.file_name for file in change.added_files} & {f.file_name for f in unit},
        )

    def number(self, row: dict[str, int | str]) -> int:
        return int(row["k"]) if self.kind == "integers" else int(row["k"]) * 3 + int(row["j"])


@pytest.mark.parametrize("kind", KEYS)
def test_random_buckets(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        bucket = Bucket.of(kind)
        keys = list(range(60))
        rng.shuffle(keys)
        above = []
        for level, part in ((5, keys[:30]), (3, keys[30:40])):
            chosen = sorted(part)
            above += [
                bucket.store(f"{level}-{place}", chosen[place : place + 7], level)
                for place in range(0, len(chosen), 7)
            ]
        expected: dict[int, int] = {}
        unit = []
        for number in range(rng.randrange(1, 4)):
            chosen = sorted(rng.sample(range(70), rng.randrange(1, 12)))
            first = bucket.numbers + 1
            unit.append(bucket.store(f"0-{number}", chosen, 0))
            for place, key in enumerate(chosen):
                expected.setdefault(key, first + place)
        stored_keys = set(keys[:40])
        changes, _, _ = bucket.compact(unit, above, small=rng.choice([0, 10**9]))
        assert changes == {key: value for key, value in expected.items() if key not in stored_keys}


def test_a_file_that_nothing_above_overlaps_is_lifted_without_a_look() -> None:
    bucket = Bucket.of("integers")
    above = [bucket.store("5-a", [1, 4], 5), bucket.store("5-b", [9, 12], 5)]
    alone, beside = bucket.store("0-a", [5, 7], 0), bucket.store("0-b", [9, 10], 0)
    changes, opened_names, lifted_names = bucket.compact([alone, beside], above)
    assert changes == {5: 5, 7: 6, 10: 8}
    assert opened_names == ["5-b"]
    assert lifted_names == {"0-a"}


def test_files_of_which_every_key_is_above_leave_nothing() -> None:
    bucket = Bucket.of("integers")
    above = [bucket.store("5", [1, 2, 3], 5)]
    changes, _, _ = bucket.compact([bucket.store("0", [1, 3], 0)], above)
    assert changes == {}
