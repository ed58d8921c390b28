"""Tables whose columns get other types while Java and we write, read and compact in turns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stream_app
from stream_app.errors import CommitConflictError, CompactionError
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table
from tests.support.interop.compacted_tables import compact_fully
from tests.support.interop.every_type import a_table
from tests.support.interop.written_tables import SIGNS
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.tables.small_table import Change, SmallTable
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = (
    "k INT, ts BIGINT, i INT, b BIGINT, d DOUBLE, m DECIMAL(9,2), day DATE, t TIMESTAMP(3), "
    "flag BOOLEAN, data BYTES, s STRING, gone STRING"
)
STEPS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("type", "i", "STRING"), ("type", "b", "DOUBLE"), ("type", "day", "TIMESTAMP(6)"),
     ("type", "ts", "STRING"), ("drop", "gone")),
    (("type", "d", "STRING"), ("type", "m", "DECIMAL(12,1)"), ("type", "flag", "INT"),
     ("type", "data", "STRING"), ("rename", "i", "text"), ("add", "new", "INT")),
    (("type", "b", "STRING"), ("type", "t", "DATE"), ("type", "day", "DATE"),
     ("type", "s", "VARCHAR(2)"), ("type", "new", "BIGINT")),
)  # fmt: skip


def changes(noise: random.Random, names: Sequence[str], epoch: int) -> list[Change]:
    values: dict[str, Any] = {
        "ts": noise.randrange(5, 200), "i": noise.randrange(-300, 300), "b": noise.randrange(2**40),
        "d": noise.randrange(1000) / 8, "m": noise.randrange(1000), "flag": noise.random() < 0.5,
        "data": noise.choice([b"", b"abc", "äö".encode()]), "s": noise.choice(["", "a", "äöü€"]),
    }  # fmt: skip
    rows: list[Change] = []
    for k in noise.sample(range(40), 12):
        row: dict[str, Any] = {"k": k} | {
            name: None if noise.random() < 0.1 else value
            for name, value in values.items()
            if name in names
        }
        values["ts"] += 1
        rows.append(("+I" if noise.random() < 0.8 else "-D", row))
    return rows


def same_as_java(java: PaimonJava, location: str) -> list[str]:
    content = by_content(normal_rows(stream_app.open_table(location).read().read_all()))
    assert content == by_content(java.read(location))
    return content


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (("k",), {"num-sorted-run.compaction-trigger": "20"}),
        (("k",), {"num-sorted-run.compaction-trigger": "20", "sequence.field": "ts"}),
        (("k",), {"changelog-producer": "input", "write-only": "true"}),
        ((), {"bucket": "-1"}),
        ((), {"bucket": "2", "bucket-key": "k"}),
    ],
)
def test_each_reads_and_compacts_what_the_other_wrote(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, keys: tuple[str, ...],
    options: dict[str, str],
) -> None:  # fmt: skip
    """The files have four schemas with different types; a column of numbers becomes texts."""
    noise = random.Random(seed)
    location = a_table(tmp_path, COLUMNS, keys, **options).location
    for step in ((), *STEPS):
        if step:
            paimon_java.alter(location, *step)
        writer = SmallTable(open_file_store_table(location))
        writer.epoch = 100 * writer.table.schema.schema_id
        names = writer.table.schema.fields.names
        types = {column.name: column.data_type for column in writer.table.schema.fields}
        for epoch in range(2):
            epoch_changes = changes(noise, names, epoch)
            if not keys:
                epoch_changes = [("+I", row) for _, row in epoch_changes]
            writer.commit(*((kind, fitting(row, types)) for kind, row in epoch_changes))
        same_as_java(paimon_java, location)
    conditions_are_javas(paimon_java, location, noise)
    if keys and "sequence.field" not in options:
        # Java reads changes by the schema of the first snapshot; replayed they are the table.
        assert replayed_rows(location) == same_as_java(paimon_java, location)
    before = same_as_java(paimon_java, location)
    stream_app_compacts(location)
    assert same_as_java(paimon_java, location) == before
    assert {file["schema_id"] for file in paimon_java.files(location)} == {len(STEPS)}
    conditions_are_javas(paimon_java, location, noise)


def fitting(row: Mapping[str, Any], types: dict[str, Any]) -> dict[str, Any]:
    """The same values with the types of today."""
    texts = ("STRING", "VARCHAR(2)")
    cells = {}
    for name, input_value in row.items():
        value, kind = input_value, str(types[name].as_nullable())
        if value is not None and kind in texts and not isinstance(value, str):
            value = value.decode() if isinstance(value, bytes) else str(value)
        if kind == "VARCHAR(2)" and value is not None:
            value = value[:2]
        if kind == "INT" and isinstance(value, bool):
            value = int(value)
        cells[name] = value
    return cells


def stream_app_compacts(location: str) -> None:
    """Everything is rewritten, whatever its level and size."""
    rewriting = {"compaction.force-rewrite-all-files": "true", "compaction.min.file-num": "2"}
    table = open_file_store_table(location)
    table = table.with_options(rewriting | {"write-only": "false"})
    commit = StreamTableCommit(table, "compactor", CompactInCaller(table), BATCH_COMMIT_IDENTIFIER)
    commit.compact_fully()


def replayed_rows(location: str) -> list[str]:
    rows: dict[int, dict[str, Any]] = {}
    for batch in stream_app.open_table(location).changelog(snapshot=1):
        for row in normal_rows(pa.Table.from_batches([batch.rows])):
            if row.pop("rowkind") == "-D":
                rows.pop(row["k"], None)
            else:
                rows[row["k"]] = row
    return by_content(list(rows.values()))


def conditions_are_javas(java: PaimonJava, location: str, noise: random.Random) -> None:
    """Statistics of older files speak of other types."""
    table = stream_app.open_table(location)
    rows = table.read().read_all()
    names = [name for name in rows.column_names if name != "data"]
    for _ in range(25):
        name = noise.choice(names)
        value = rows.column(name)[noise.randrange(rows.num_rows)]
        sign = noise.choice(list(SIGNS))
        if not value.is_valid:
            where, theirs_ = pc.field(name).is_null(), None
        else:
            where = SIGNS[sign](pc.field(name), pc.scalar(value))
            plain = normal_rows(rows.filter(pc.equal(rows.column(name), value)))[0][name]
            theirs_ = plain if sign == "=" else {"op": sign, "value": plain}
        read = by_content(normal_rows(table.read(where=where).read_all()))
        filtered_rows = by_content(normal_rows(rows.filter(where)))
        assert read == filtered_rows, (name, sign, value)
        assert read == by_content(java.read(location, where={name: theirs_})), (name, sign, value)


@pytest.mark.parametrize("kind", ["orc", "avro"])
@pytest.mark.parametrize(
    ("keys", "bucket", "more"), [(("k",), "1", {}), ((), "1", {"bucket-key": "k"}), ((), "-1", {})]
)
def test_a_job_goes_on_with_files_of_another_format(
    paimon_java: PaimonJava, tmp_path: Path, kind: str, keys: tuple[str, ...], bucket: str,
    more: dict[str, str],
) -> None:  # fmt: skip
    """Such files come while the job runs; a compaction rewrites them in the table's format."""
    path = tmp_path / "db.db" / "t"
    options = {"bucket": bucket, "write-only": "true", **more}
    paimon_java.create(path, [("k", "INT"), ("v", "STRING")], primary_keys=keys, options=options)
    paimon_java.batch_write(path, [("+I", {"k": 1, "v": "a"})])
    running = a_job(str(path))
    running.write([("+I", {"k": 2, "v": "b"})])
    paimon_java.batch_write(path, [("+I", {"k": 3, "v": "c"})], options={"file.format": kind})
    running.write([("+I", {"k": 4, "v": "d"})])
    plan_at_start(a_job(str(path)))
    assert {row["k"]: row["v"] for row in paimon_java.read(path)} == dict(enumerate("abcd", 1))
    compact_fully(open_file_store_table(str(path)).with_options({"write-only": "false"}))
    suffixes = {Path(file["file_name"]).suffix for file in paimon_java.files(path)}
    # Without buckets a few small files stay as they are.
    assert suffixes == {".parquet"} or (bucket == "-1" and suffixes == {".parquet", f".{kind}"})
    assert {row["k"]: row["v"] for row in paimon_java.read(path)} == dict(enumerate("abcd", 1))


def a_job(location: str) -> TableWriter:
    return TableWriter(open_file_store_table(location).with_options({"write-only": "false"}))


def plan_at_start(job: TableWriter) -> None:
    """Let the job plan compactions; without buckets its planner reads the files."""
    job.commit.compact_due()


def test_a_type_that_holds_less_ends_the_job_at_its_next_commit(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    job = TableWriter(a_table(tmp_path, "k INT, i INT, s STRING", ("k",)))
    job.write([("+I", {"k": 1, "i": 1, "s": "1"})])
    paimon_java.alter(job.table.location, ("type", "i", "BIGINT"))
    job.write([("+I", {"k": 2, "i": 2, "s": "2"})])
    paimon_java.alter(job.table.location, ("type", "s", "INT"))
    with pytest.raises(CommitConflictError, match="column 's' was STRING and is INT"):
        job.write([("+I", {"k": 3, "i": 3, "s": "three"})])
    assert len(same_as_java(paimon_java, job.table.location)) == 2


def test_values_without_counterpart_end_the_job_at_once(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Paimon gives the column its new type, and can read it no more; neither can a compaction."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
    job = TableWriter(a_table(tmp_path, "k INT, s STRING", ("k",), **options))
    job.write([("+I", {"k": 1, "s": "one"})])
    paimon_java.alter(job.table.location, ("type", "s", "INT"))
    with pytest.raises(PaimonError):
        paimon_java.read(job.table.location)
    job = TableWriter(open_file_store_table(job.table.location))
    job.model.changes.append([])
    for k in (2, 3, 4):
        job.write([("+I", {"k": k, "s": k})])
    with pytest.raises(CompactionError, match="'one' is not a valid INT"):
        job.write([("+I", {"k": 5, "s": 5})])
    paimon_java.alter(job.table.location, ("type", "s", "STRING"))
    assert len(same_as_java(paimon_java, job.table.location)) >= 3


def test_a_bucket_key_of_another_type_is_looked_for_everywhere(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """The other type has another hash; Java itself finds half of the rows."""
    location = a_table(tmp_path, "k INT, b INT", (), bucket="4", **{"bucket-key": "b"}).location
    writer = TableWriter(open_file_store_table(location))
    writer.write([("+I", {"k": k, "b": k}) for k in range(20)])
    paimon_java.alter(location, ("type", "b", "STRING"))
    table = stream_app.open_table(location)
    for k in range(20):
        assert table.read(where=f"b = '{k}'").read_all().column("k").to_pylist() == [k]
    writer = TableWriter(open_file_store_table(location))
    writer.model.changes.append([])
    writer.write([("+I", {"k": 20, "b": "20"})])
    assert table.read(where="b = '20'", snapshot=2).read_all().num_rows == 1
    sound_report(open_file_store_table(location))
