"""stream_app knows Paimon 2's options, and reads, continues or refuses its tables."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.errors import UnsupportedTableError
from stream_app.model.options.core_options import OPTIONS, option_named, unknown_options
from stream_app.model.options.paimon_option_keys import CORE_KEYS, PAIMON_PREFIXES
from stream_app.table.opening import open_file_store_table, require_writable
from tests.support.judges.normal_rows import normal_rows, sorted_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change, SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string())])
FIRST = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
SECOND = [{"k": 1, "v": "a2"}]
MERGED = [{"k": 1, "v": "a2"}, {"k": 2, "v": "b"}]
TYPES = {"bool": "boolean", "int": "integer", "float": "real", "MemorySize": "size"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wh" / "db.db" / "t"


def write_table(
    pypaimon: PyPaimonReader, path: Path, options: dict[str, str], commits: Any = (FIRST, SECOND)
) -> None:
    for rows in commits:
        table = pa.Table.from_pylist(rows, SCHEMA)
        pypaimon.write(path, table, primary_keys=["k"], options={"bucket": "1", **options})


def inserts(rows: list[dict[str, Any]]) -> list[Change]:
    return [("+I", row) for row in rows]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return sorted_rows(normal_rows(table))


def test_each_option_of_the_newest_pypaimon_is_known_with_its_type(
    pypaimon: PyPaimonReader,
) -> None:
    paimon_options = pypaimon.options()
    assert len(paimon_options) > 100
    assert unknown_options(dict.fromkeys(paimon_options, "")) == []
    ours = CORE_KEYS | {key: option.kind for key, option in OPTIONS.items()}
    listed_kinds = {
        key: kind for key, kind in paimon_options.items() if kind in TYPES and key in ours
    }
    other_kinds = {key: kind for key, kind in listed_kinds.items() if ours[key].name != TYPES[kind]}
    assert other_kinds == {}
    # Each stands in a list, or begins as options do whose rest nobody lists.
    assert all(
        key in CORE_KEYS or option_named(key) or key.startswith(PAIMON_PREFIXES)
        for key in paimon_options
    )


@pytest.mark.parametrize(
    ("options", "commits", "expected"),
    [
        pytest.param({"pk-clustering-override": "true"}, (FIRST, SECOND), MERGED, id="clustering"),
    ],
)
def test_a_table_whose_rows_mean_something_else_is_refused(
    pypaimon: PyPaimonReader,
    path: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
    commits: Any,
    expected: list[dict[str, Any]],
) -> None:
    write_table(pypaimon, path, options, commits)
    assert rows_of(pypaimon.read(path)) == sorted_rows(expected)
    key = list(options)[-1]
    for purpose in (
        lambda: stream_app.open_table(path).read(),
        lambda: stream_app.open_table(path).read_incremental((1, 2)),
        lambda: require_writable(open_file_store_table(str(path))),
    ):
        with pytest.raises(UnsupportedTableError, match=rf"this table: {key} = true \("):
            purpose()
    assert main(["compact", str(path), "--full"]) == 2
    assert main(["alter", str(path), "--unset", key]) == 2
    assert key in capsys.readouterr().err
    assert main(["check", str(path)]) == 3
    assert "rows were not checked: stream_app cannot read" in capsys.readouterr().out


def test_at_its_default_such_an_option_changes_nothing(
    pypaimon: PyPaimonReader, path: Path
) -> None:
    off = ("primary-key.nullable", "deletion-vectors.merge-on-read", "sequence.snapshot-ordering")
    write_table(pypaimon, path, dict.fromkeys(off, "false"))
    assert rows_of(stream_app.open_table(path).read().read_all()) == MERGED
    require_writable(open_file_store_table(str(path)))


@pytest.mark.parametrize(
    "key",
    [
        "pk-btree.index.columns",
        "pk-bitmap.index.columns",
        "pk-multivalue.index.columns",
        "pk-full-text.index.columns",
        "pk-vector.index.columns",
        "metadata.iceberg.storage",
        "commit.callbacks",
        "partition.idle-time-to-done",
    ],
)
def test_we_read_but_do_not_write_tables_that_only_paimons_writers_keep_up(
    path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small_table(path, "k INT, v STRING", ("k",)).commit(*inserts(FIRST))
    with_option(path, key, "v")
    assert rows_of(stream_app.open_table(path).read().read_all()) == FIRST
    with pytest.raises(UnsupportedTableError, match=rf"cannot write this table: {key} = v \("):
        require_writable(open_file_store_table(str(path)))
    before = sorted(file for file in path.rglob("*") if file.is_file())
    for verb in (["compact", str(path), "--full"], ["truncate", str(path)]):
        assert main(verb) == 2, verb
        assert f"{key} = v (" in capsys.readouterr().err
    assert sorted(file for file in path.rglob("*") if file.is_file()) == before


def test_an_unknown_option_refuses_each_change_until_it_is_taken_out(
    pypaimon: PyPaimonReader,
    path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table(pypaimon, path, {"some.later.option": "1"})
    before = sorted(file for file in path.rglob("*") if file.is_file())
    for verb in (
        ["compact", str(path)],
        ["expire-snapshots", str(path), "--retain-max", "1", "--retain-min", "1"],
        ["rollback-to", str(path), "--snapshot", "1"],
        ["create-tag", str(path), "a"],
        ["remove-orphan-files", str(path)],
        ["truncate", str(path)],
        ["alter", str(path), "--set", "snapshot.time-retained=2 h"],
    ):
        assert main(verb) == 2, verb
        assert "some.later.option = 1 (stream_app does not know it)" in capsys.readouterr().err
    assert sorted(file for file in path.rglob("*") if file.is_file()) == before
    with caplog.at_level(logging.WARNING):
        assert rows_of(stream_app.open_table(path).read().read_all()) == MERGED
    assert "options that stream_app does not know: some.later.option" in caplog.text
    assert main(["check", str(path)]) == 3
    assert "some.later.option" in capsys.readouterr().out
    assert main(["alter", str(path), "--unset", "some.later.option"]) == 0
    require_writable(open_file_store_table(str(path)))
    assert main(["check", str(path)]) == 0


@pytest.mark.java
def test_our_commits_name_their_writer_and_every_engine_reads_them(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, path: Path
) -> None:
    """Our commit follows a snapshot of PyPaimon 2, whose own notes stay in that snapshot."""
    write_table(pypaimon, path, {})
    SmallTable(require_writable(open_file_store_table(str(path)))).commit(
        *inserts([{"k": 3, "v": "c"}])
    )
    expected = [*MERGED, {"k": 3, "v": "c"}]
    system = stream_app.open_table(path).system("snapshots").to_pylist()
    versions = [row["writer_version"] for row in system]
    assert versions[0].startswith("python-2.1.0-")
    assert versions[-1] == f"stream_app-{stream_app.__version__}"
    assert rows_of(stream_app.open_table(path).read().read_all()) == expected
    assert sorted_rows(paimon_java.read(path)) == expected
    assert rows_of(pypaimon.read(path)) == expected
    assert rows_of(pypaimon.read_by_rust(path)) == expected
    # And they continue with it.
    write_table(pypaimon, path, {}, [[{"k": 4, "v": "d"}]])
    paimon_java.write(path, [("+I", {"k": 5, "v": "e"})], identifier=9)
    expected += [{"k": 4, "v": "d"}, {"k": 5, "v": "e"}]
    assert rows_of(stream_app.open_table(path).read().read_all()) == expected
    assert main(["truncate", str(path)]) == 0
    assert paimon_java.read(path) == pypaimon.read(path).to_pylist() == []
    notes = [json.loads(file.read_text()) for file in sorted(path.glob("snapshot/snapshot-*"))]
    ours = [note for note in notes if note.get("writerVersion", "").startswith("stream_app-")]
    assert [note.get("operation") for note in ours] == [None, "TRUNCATE"]
    assert len({uuid.UUID(note["uuid"]) for note in ours}) == len(ours)
    assert (
        stream_app.open_table(path).system("snapshots").to_pylist()[-1]["operation"] == "TRUNCATE"
    )


def test_a_tag_of_ours_keeps_what_paimon_2_notes_of_a_snapshot(
    pypaimon: PyPaimonReader, path: Path
) -> None:
    write_table(pypaimon, path, {})
    assert main(["create-tag", str(path), "first", "--snapshot", "1"]) == 0
    snapshot = json.loads((path / "snapshot" / "snapshot-1").read_text())
    tag = json.loads((path / "tag" / "tag-first").read_text())
    assert {"uuid", "writerVersion"} <= snapshot.keys()
    assert snapshot.items() <= tag.items()


@pytest.mark.parametrize("file", ["snapshot", "schema"])
def test_fields_of_a_later_version_warn_readers_and_refuse_writers(
    path: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    small_table(path, "k INT, v STRING", ("k",)).commit(*inserts(FIRST))
    change(latest_file(path, file), {"laterField": {"a": 1}})
    with caplog.at_level(logging.WARNING):
        assert rows_of(stream_app.open_table(path).read().read_all()) == FIRST
    assert f"fields of its {file}" in caplog.text
    assert "stream_app does not know: laterField" in caplog.text
    with pytest.raises(UnsupportedTableError, match="laterField; a commit would lose"):
        SmallTable(require_writable(open_file_store_table(str(path)))).commit(*inserts(SECOND))


def latest_file(path: Path, kind: str) -> Path:
    return max((path / kind).glob(f"{kind}-*"), key=lambda file: int(file.name.split("-")[1]))


def change(file: Path, values: dict[str, Any]) -> None:
    content = json.loads(file.read_text())
    content.pop("stream_app.digest", None)
    file.write_text(json.dumps({**content, **values}))


def with_option(path: Path, key: str, value: str) -> None:
    schema = latest_file(path, "schema")
    options = json.loads(schema.read_text())["options"]
    change(schema, {"options": {**options, key: value}})
