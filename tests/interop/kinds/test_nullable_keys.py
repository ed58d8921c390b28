"""Paimon 2 and stream_app take null as the least key with ``primary-key.nullable``.

Paimon 1.4 does not know the option. Its Java reads such tables all the same, because it compares
keys with nulls first. PyPaimon 2.1 makes them, writes and reads them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import UsageError
from stream_app.model.schema.iceberg_schema import iceberg_schema
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table, require_writable
from tests.simulation.model.merging import Record, kinds_of, merge_of, merged
from tests.support.histories.every_kind import ALWAYS_REFUSED, EVERY_KIND, options_of
from tests.support.interop.followed_rows import our_changes
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import CompactInCaller, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("v", pa.int64()), ("p", pa.string())])
KEYS = list(itertools.product((None, -3, 0, 7), (None, "", "x", "a longer text")))
KINDS = [
    kind
    for kind in EVERY_KIND
    if kind[2] != "-2" and (kind[0], kind[1], kind[3]) not in ALWAYS_REFUSED
]
NO_TEXT = {"p": None, "t": None}
Key = tuple[int | None, str | None]


def table_of(
    path: Path, options: Mapping[str, str], columns: str = "a INT, b STRING"
) -> SmallTable:
    keys = [column.split()[0] for column in columns.split(", ")]
    of_table = {**options, "primary-key.nullable": "true"}
    return small_table(path, f"{columns}, v BIGINT, p STRING, t STRING", keys, **of_table)


def compact_fully(small: SmallTable) -> None:
    commit = StreamTableCommit(
        small.table, "compactor", CompactInCaller(small.table), BATCH_COMMIT_IDENTIFIER
    )
    commit.compact_fully()


class Model:
    """The rows that a table must hold, by key."""

    def __init__(self, options: Mapping[str, str], seed: int) -> None:
        self.options, self.rng = options, random.Random(seed)
        self.rows: dict[Key, Record] = {}

    def changes(self, count: int) -> list[Change]:
        return [self._change() for _ in range(count)]

    def _change(self) -> Change:
        key = a, b = self.rng.choice(KEYS)
        kind = self.rng.choice(kinds_of(self.options, has_key=True))
        row: dict[str, Any] = {"a": a, "b": b, "v": self.rng.randrange(100), "p": str(a), "t": b}
        if kind in ("-D", "-U") and key in self.rows:
            row = self.rows[key]
        is_ignored = kind in ("-D", "-U") and "ignore-delete" in self.options
        if not is_ignored:
            new = merged(merge_of(self.options), self.rows.pop(key, None), [(kind, row)])
            if new is not None:
                self.rows[key] = new
        return kind, row


@pytest.mark.parametrize("kind", KINDS, ids="/".join)
def test_each_kind_of_table_takes_null_as_a_key(
    tmp_path: Path, kind: tuple[str, str, str, str]
) -> None:
    options = options_of(kind)
    small = table_of(tmp_path / "db.db" / "t", options)
    model = Model(options, seed=len(kind[0]))
    for _ in range(6):
        small.commit(*model.changes(12))
    small.compact()
    assert by_content(read_rows(small.table)) == by_content(model.rows.values())
    compact_fully(small)
    assert by_content(read_rows(small.table)) == by_content(model.rows.values())
    assert sound_report(small.table).file_count


@pytest.mark.java
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_java_and_pypaimon_read_what_we_write_and_compact(
    tmp_path: Path, paimon_java: PaimonJava, pypaimon: PyPaimonReader, vectors: str
) -> None:
    options = {"bucket": "2", "deletion-vectors.enabled": vectors}
    small = table_of(tmp_path / "db.db" / "t", options)
    model = Model(options, seed=1)
    for _ in range(6):
        small.commit(*model.changes(20))
    small.compact()
    expected = by_content(model.rows.values())
    assert by_content(normal_rows(pypaimon.read(small.path))) == expected
    assert by_content(normal_rows(pypaimon.read_by_rust(small.path))) == expected
    assert by_content(paimon_java.read(small.path)) == expected
    paimon_java.write(small.path, java := model.changes(9), identifier=1)
    assert {kind for kind, _ in java} <= {"+I", "+U", "-U", "-D"}
    paimon_java.compact(small.path)
    assert by_content(read_rows(small.table)) == by_content(model.rows.values())


@pytest.mark.parametrize("column", ["a INT", "b STRING"])
def test_we_read_go_on_with_and_compact_a_table_of_pypaimon(
    tmp_path: Path, pypaimon: PyPaimonReader, column: str
) -> None:
    """PyPaimon chooses the buckets of null keys, and we the same."""
    path, name = tmp_path / "db.db" / "t", column.split(maxsplit=1)[0]
    values: list[Any] = [None, 1, 2, 3, 4] if name == "a" else [None, "", "x", "y", "a longer text"]
    schema = pa.schema([SCHEMA.field(name), SCHEMA.field("v")])
    rows: dict[Any, dict[str, Any]] = {}
    for epoch in range(2):
        epoch_rows = [{name: value, "v": epoch} for value in values[epoch:] + values[:1]]
        rows |= {row[name]: row for row in epoch_rows}
        options = {"bucket": "3", "primary-key.nullable": "true"}
        table = pa.Table.from_pylist(epoch_rows, schema)
        pypaimon.write(path, table, primary_keys=[name], options=options)
    assert by_content(read_rows(open_file_store_table(str(path)))) == by_content(rows.values())
    small = SmallTable(require_writable(open_file_store_table(str(path))))
    small.commit(("+I", {name: None, "v": 7}), ("-D", rows.pop(values[1])))
    rows[None] = {name: None, "v": 7}
    for _ in range(2):
        assert by_content(read_rows(small.table)) == by_content(rows.values())
        assert by_content(normal_rows(pypaimon.read(path))) == by_content(rows.values())
        compact_fully(small)
    report = sound_report(small.table)  # each row lies in the bucket of its key
    assert report.file_count


def test_conditions_and_changes_know_null_keys(tmp_path: Path) -> None:
    small = table_of(
        tmp_path / "db.db" / "t", {"bucket": "2", "changelog-producer": "lookup"}, "a INT"
    )
    first = [{"a": a, "v": 1, **NO_TEXT} for a in (None, 1, 2)]
    small.commit(*(("+I", row) for row in first))
    small.compact()
    small.commit(("+U", {"a": None, "v": 2, **NO_TEXT}), ("-D", first[1]))
    small.compact()
    table = stream_app.open_table(small.path)
    assert table.read(where="a IS NULL").read_all().to_pylist() == [{"a": None, "v": 2, **NO_TEXT}]
    assert table.read(where="a = 2").read_all().to_pylist() == [first[2]]
    [compacted_changes] = our_changes(table.changelog(snapshot=4)).values()
    assert [change[:15] for change in compacted_changes] == [
        "+U [('a', None)",
        "-D [('a', 1), (",
        "-U [('a', None)",
    ]


def test_a_null_key_moves_between_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    options = {"primary_key__nullable": "true"}
    job = CrossPartitionJob(cross_partition_table(tmp_path / "db.db" / "t", **options))
    for epoch, partition in enumerate("xyyx"):
        job.write(*(("+I", {"id": key, "p": partition, "v": epoch}) for key in (None, epoch)))
    job.commit.compact_due()
    expected = [{"id": key, "p": "xyyx"[key], "v": key} for key in range(4)]
    expected += [{"id": None, "p": "x", "v": 3}]
    assert by_content(read_rows(job.table)) == by_content(expected)
    assert sound_report(job.table).file_count


def test_the_option_is_for_tables_with_a_key_and_stays(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"primary-key\.nullable needs primary-keys"):
        small_table(tmp_path / "db.db" / "t", "a INT", **{"primary-key.nullable": "true"})
    small = table_of(tmp_path / "db.db" / "u", {})
    schema = small.table.schema
    assert all(column.data_type.nullable for column in schema.fields)
    # Iceberg's readers have no identifier then, because one is never null.
    assert iceberg_schema(0, schema.fields, schema.primary_keys)["identifier-field-ids"] == []
    small.commit(("+I", {"a": None, "b": None, "v": 1, **NO_TEXT}))
    assert main(["alter", small.path, "--set", "primary-key.nullable=false"]) != 0
    assert main(["alter", small.path, "--not-null", "a"]) != 0
