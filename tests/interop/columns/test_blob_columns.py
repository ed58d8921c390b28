"""stream_app reads PyPaimon's BLOB columns, and other files with some columns of their rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from tests.support.interop.compacted_tables import FAR_FUTURE_MS
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.pages.web_server import served_warehouse
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")
BLOBS = pa.schema(
    [
        ("k", pa.int32()),
        ("picture", pa.large_binary()),
        ("name", pa.string()),
        ("sound", pa.large_binary()),
    ]
)
OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}
ROLLING = {**OPTIONS, "blob.target-file-size": "4 kb"}
JAVAS = {name: value for name, value in ROLLING.items() if name != "deletion-vectors.enabled"}
"""Paimon 1.4 takes no deletion vectors there."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wh" / "db.db" / "t"


def some_row(noise: random.Random, k: int) -> dict[str, Any]:
    return {"k": k, "picture": a_blob(noise), "name": f"n{k}", "sound": a_blob(noise)}


def a_blob(noise: random.Random) -> bytes | None:
    kind = noise.random()
    if kind < 0.2:
        return None
    return b"" if kind < 0.3 else noise.randbytes(noise.choice([1, 50, 900, 6000]))


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    return normal_rows(stream_app.open_table(path).read(**options).read_all())


@pytest.fixture
def blobs(pypaimon: PyPaimonReader, path: Path, seed: int) -> dict[int, dict[str, Any]]:
    """The rows, by their number, of a table that was appended to, updated and deleted from."""
    noise, model = random.Random(seed), dict[int, dict[str, Any]]()
    for first in (0, 20, 40):
        rows = [some_row(noise, k) for k in range(first, first + 20)]
        pypaimon.write(path, pa.Table.from_pylist(rows, BLOBS), options=OPTIONS)
        model |= {row["k"]: row for row in rows}
    for columns in (("picture",), ("name",), ("picture", "sound"), ("k", "name")):
        numbers = sorted(noise.sample(range(60), 12))
        for number in numbers:
            model[number] |= {name: some_row(noise, number + 100)[name] for name in columns}
        fields = [("_ROW_ID", pa.int64()), *(BLOBS.field(name) for name in columns)]
        rows = [{"_ROW_ID": number, **model[number]} for number in numbers]
        pypaimon.update(path, pa.Table.from_pylist(rows, pa.schema(fields)))
    deleted_rows = noise.sample(range(60), 9)
    pypaimon.delete(path, deleted_rows)
    return {number: row for number, row in model.items() if number not in deleted_rows}


def test_blobs_are_read_as_they_were_appended_updated_and_deleted(
    pypaimon: PyPaimonReader, path: Path, blobs: dict[int, dict[str, Any]]
) -> None:
    expected = by_content(blobs.values())
    assert by_content(normal_rows(pypaimon.read(path))) == expected
    assert by_content(read(path)) == expected
    assert by_content(read(path, columns=["sound", "k"])) == by_content(
        {"sound": row["sound"], "k": row["k"]} for row in blobs.values()
    )
    chosen = next(row for row in blobs.values() if row["picture"])
    where = f"picture = X'{chosen['picture'].hex()}'"
    assert chosen["k"] in [row["k"] for row in read(path, columns=["k"], where=where)]
    assert by_content(read(path, where="sound IS NULL")) == by_content(
        row for row in blobs.values() if row["sound"] is None
    )
    assert len(read(path, where="k < 20")) == sum(row["k"] < 20 for row in blobs.values())
    table = stream_app.open_table(path)
    assert by_content(
        row for split in table.splits() for row in normal_rows(table.read_split(split).read_all())
    ) == expected  # fmt: skip
    assert findings_of(open_file_store_table(str(path))) == []


def test_each_version_is_read(pypaimon: PyPaimonReader, path: Path, blobs: Any) -> None:
    snapshots = open_file_store_table(str(path)).snapshots.ids()
    assert len(snapshots) == 8
    for number in snapshots:
        paimon_rows = pypaimon.read(path, options={"scan.snapshot-id": number})
        assert by_content(read(path, snapshot=number)) == by_content(normal_rows(paimon_rows))


def append_rows(pypaimon: PyPaimonReader, path: Path, noise: random.Random) -> list[dict[str, Any]]:
    """Rows of three commits, whose BLOBs lie in several files each."""
    rows = [some_row(noise, k) for k in range(60)]
    for first in (0, 20, 40):
        batch = pa.Table.from_pylist(rows[first : first + 20], BLOBS)
        pypaimon.write(path, batch, options=ROLLING)
    return rows


def test_upkeep_keeps_the_files_of_blobs(
    pypaimon: PyPaimonReader, path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = append_rows(pypaimon, path, random.Random(seed))
    table = open_file_store_table(str(path))
    before = {file.name for file in path.rglob("*.blob")}
    assert len(before) > 9
    assert main(["create-tag", str(path), "kept", "--snapshot", "1"]) == 0
    assert main(["branch", "create", str(path), "b", "--tag", "kept"]) == 0
    assert main(["expire-snapshots", str(path), "--retain-max", "1", "--retain-min", "1"]) == 0
    delete_orphans(table, plan_orphans(table, FAR_FUTURE_MS))
    assert {file.name for file in path.rglob("*.blob")} == before
    for version, count in (({}, 60), ({"tag": "kept"}, 20)):
        assert by_content(read(path, **version)) == by_content(rows[:count])
    assert len(read(Path(f"{path}$branch_b"))) == 20
    assert by_content(normal_rows(pypaimon.read(path))) == by_content(rows)
    assert findings_of(table) == []
    orphan = next(path.rglob("*.blob")).with_name("data-nobody-0.blob")
    orphan.write_bytes(b"left by a writer that was killed")
    delete_orphans(table, plan_orphans(table, FAR_FUTURE_MS))
    assert not orphan.exists()
    assert {file.name for file in path.rglob("*.blob")} == before


def test_what_would_break_such_a_table_is_refused_by_name(
    pypaimon: PyPaimonReader, path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    append_rows(pypaimon, path, random.Random(seed))
    for verb in (["compact", str(path), "--full"], ["alter", str(path), "--add-column", "w INT"]):
        assert main(verb) == 2
        assert "row-tracking.enabled = true (stream_app numbers no rows)" in capsys.readouterr().err
    with pytest.raises(UnsupportedTableError, match=r"data-evolution.enabled = true: a file may"):
        stream_app.open_table(path).read_incremental((1, 2))
    with pytest.raises(UnsupportedTableError, match=r"data-evolution.enabled = true: a file may"):
        list(stream_app.open_table(path).changelog())
    assert main(["inspect", str(path)]) == 0
    assert ", 60 rows" in capsys.readouterr().out
    with served_warehouse(path.parent.parent) as warehouse:
        words = warehouse.words("/tables/db.t")
        assert ", 60 rows" in words
        assert "picture BLOB" in words


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("blob-as-descriptor", "true"),
        ("blob-descriptor-field", "sound"),
        ("blob-view-field", "sound"),
        ("vector.file.format", "lance"),
    ],
)
def test_other_places_of_values_are_refused_by_name(
    pypaimon: PyPaimonReader, path: Path, key: str, value: str
) -> None:
    rows = pa.Table.from_pylist([some_row(random.Random(1), 1)], BLOBS)
    pypaimon.write(path, rows, options=OPTIONS)
    schema = path / "schema" / "schema-0"
    text = schema.read_text().replace('"row-tracking', f'"{key}": "{value}", "row-tracking')
    schema.write_text(text)
    with pytest.raises(UnsupportedTableError, match=f"read this table: {key} = {value}"):
        stream_app.open_table(path).read()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (0, "a record of a file of BLOBs is not where the file's index says"),
        (4, "a record of a file of BLOBs is not the one that was written"),
        (-2, "the index of a file of BLOBs"),
        (-1, "a file of BLOBs has version 254"),
    ],
)
def test_a_damaged_file_is_named(
    pypaimon: PyPaimonReader, path: Path, place: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"k": k, "picture": b"abcdef" * k, "name": "n", "sound": b"s"} for k in range(1, 9)]
    pypaimon.write(path, pa.Table.from_pylist(rows, BLOBS), options=OPTIONS)
    file = next(path.rglob("*.blob"))
    data = bytearray(file.read_bytes())
    data[place] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises((CorruptFileError, UnsupportedTableError), match=why) as raised:
        read(path)
    assert file.name in str(raised.value)
    assert len(read(path, columns=["k"])) == 8
    main(["check", str(path)])
    assert file.name in capsys.readouterr().out


def test_two_values_of_the_same_age_are_no_guess(
    pypaimon: PyPaimonReader, path: Path, seed: int
) -> None:
    noise = random.Random(seed)
    rows = [{**some_row(noise, k), "picture": noise.randbytes(6000)} for k in range(20)]
    pypaimon.write(path, pa.Table.from_pylist(rows, BLOBS), options=ROLLING)
    numbered_schema = pa.schema([("_ROW_ID", pa.int64()), BLOBS.field("picture")])
    new = [{"_ROW_ID": number, "picture": b"new"} for number in range(20)]
    pypaimon.update(path, pa.Table.from_pylist(new, numbered_schema))
    with pytest.raises(CorruptFileError, match="both with sequence number"):
        read(path)
    assert len(read(path, columns=["k", "sound"])) == 20


def test_java_writes_blobs_too_and_columns_come_and_are_renamed(
    paimon_java: PaimonJava, path: Path, seed: int
) -> None:
    noise = random.Random(seed)
    columns = [("k", "INT"), ("picture", "BLOB"), ("name", "STRING")]
    paimon_java.create(path, columns, options={"bucket": "-1", **JAVAS})
    rows = [{"k": k, "picture": a_blob(noise), "name": f"n{k}"} for k in range(40)]
    for first in (0, 20):
        inserts = [("+I", row) for row in rows[first : first + 20]]
        paimon_java.write(path, inserts, identifier=first)
    assert len([*path.rglob("*.blob")]) > 3
    assert by_content(read(path)) == by_content(rows) == by_content(paimon_java.read(path))
    paimon_java.alter(path, ("rename", "name", "title"), ("add", "sound", "BLOB"))
    older = [
        {"k": row["k"], "picture": row["picture"], "title": row["name"], "sound": None}
        for row in rows
    ]
    more = [{"k": k, "picture": b"i", "title": None, "sound": a_blob(noise)} for k in range(40, 50)]
    paimon_java.write(path, [("+I", row) for row in more], identifier=50)
    assert by_content(paimon_java.read(path)) == by_content([*older, *more])
    assert by_content(read(path)) == by_content([*older, *more])
    assert findings_of(open_file_store_table(str(path))) == []


def test_vectors_in_files_of_their_own_are_read(
    pypaimon: PyPaimonReader, path: Path, seed: int
) -> None:
    noise = random.Random(seed)
    schema = pa.schema([("k", pa.int32()), ("v", pa.list_(pa.float32(), 3)), ("t", pa.string())])
    options = {**OPTIONS, "vector.file.format": "parquet"}
    rows: list[dict[str, Any]] = []
    for first in (0, 30):
        new_rows: list[dict[str, Any]] = [
            {"k": k, "v": [noise.randrange(8) / 4 for _ in range(3)], "t": f"t{k}"}
            for k in range(first, first + 30)
        ]
        pypaimon.write(path, pa.Table.from_pylist(new_rows, schema), options=options)
        rows += new_rows
    assert [*path.rglob("*.vector.parquet")]
    assert by_content(normal_rows(pypaimon.read(path))) == by_content(rows)
    assert by_content(read(path)) == by_content(rows)
    assert by_content(read(path, where="v[0] > 1")) == by_content(
        row for row in rows if row["v"][0] > 1
    )
    assert findings_of(open_file_store_table(str(path))) == []
