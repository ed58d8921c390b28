"""``stream-app alter`` makes the schemas that Paimon's Java makes, and everybody reads the rows."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import SmallTable, small_table
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = "dt STRING, k INT, ts BIGINT, v VARCHAR(5), d DECIMAL(9,2), gone STRING"
JAVAS = {
    "add": "--add-column",
    "type": "--change-type",
    "rename": "--rename-column",
    "drop": "--drop-column",
    "default": "--default",
    "option": "--set",
}


def alter(location: str, *words: str) -> int:
    return main(["alter", location, *words])


def words_of(change: tuple[str, ...]) -> list[str]:
    kind, *values = change
    pair = "=" if kind in ("rename", "default", "option") else " "
    return [JAVAS[kind], pair.join(values)]


def fill_table(path: Path, **options: Any) -> SmallTable:
    table = small_table(str(path), COLUMNS, ("dt", "k"), ("dt",), sequence__field="ts", **options)
    rows = [
        ("+I", {"dt": "a", "k": k, "ts": k, "v": f"v{k}", "d": k, "gone": "x"}) for k in range(4)
    ]
    table.commit(*rows)
    return table


def latest_schema(location: str) -> dict[str, Any]:
    schemas = open_file_store_table(location).schemas
    document = json.loads(Path(schemas.path(schemas.ids()[-1])).read_bytes())
    for name in ("timeMillis", "stream_app.digest"):
        document.pop(name, None)
    return dict(document)


@pytest.mark.parametrize(
    "changes",
    [
        [("add", "n", "INT"), ("add", "m", "DECIMAL(5, 1)"), ("drop", "gone")],
        [("type", "v", "STRING"), ("type", "d", "DECIMAL(12, 3)"), ("rename", "v", "w")],
        [("rename", "ts", "changed_at")],
        [("rename", "k", "number")],
        [("drop", "gone"), ("add", "gone", "INT")],
        [("type", "d", "INT")],
        [("type", "gone", "BYTES"), ("default", "v", "none")],
        [("option", "num-levels", "6"), ("option", "bucket", "3")],
    ],
)
def test_altered_schemas_equal_javas(
    paimon_java: PaimonJava, tmp_path: Path, changes: list[tuple[str, ...]]
) -> None:
    ours, javas = tmp_path / "ours" / "d.db" / "t", tmp_path / "javas" / "d.db" / "t"
    fill_table(ours)
    shutil.copytree(ours, javas)
    assert alter(str(ours), *(word for change in changes for word in words_of(change))) == 0
    paimon_java.alter(javas, *changes)
    assert latest_schema(str(ours)) == latest_schema(str(javas))
    assert by_content(paimon_java.read(ours)) == by_content(paimon_java.read(javas))


@pytest.mark.parametrize(
    "change",
    [
        ("add", "v", "INT"),
        ("add", "n", "INT NOT NULL"),
        ("type", "k", "BIGINT"),
        ("type", "dt", "DATE"),
        ("type", "nowhere", "INT"),
        ("type", "d", "BYTES"),
        ("rename", "dt", "day"),
        ("rename", "v", "d"),
        ("rename", "nowhere", "x"),
        ("drop", "dt"),
        ("drop", "k"),
        ("drop", "ts"),
        ("option", "bucket", "-1"),
        ("option", "bucket-key", "k"),
        ("option", "merge-engine", "first-row"),
        ("option", "sequence.field", "nowhere"),
    ],
)
def test_alter_refuses_what_java_refuses(
    paimon_java: PaimonJava,
    tmp_path: Path,
    change: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    location = fill_table(tmp_path / "d.db" / "t").path
    with pytest.raises(PaimonError):
        paimon_java.alter(location, change)
    assert alter(location, *words_of(change)) == 2
    assert "to fix:" in capsys.readouterr().err
    assert open_file_store_table(location).schemas.ids() == [0]


def test_old_and_new_files_are_read_followed_compacted_and_checked(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path
) -> None:
    options = {"changelog_producer": "input", "num_sorted_run__compaction_trigger": 9}
    location = fill_table(tmp_path / "d.db" / "t", **options).path
    steps = (
        ["--add-column", "n INT FIRST", "--change-type", "d DECIMAL(12,3)"],
        ["--rename-column", "v=w", "--drop-column", "gone", "--change-type", "n BIGINT"],
        ["--move-column", "w AFTER dt", "--comment-column", "w=a text", "--set", "num-levels=6"],
    )
    for number, words in enumerate(steps, 1):
        assert alter(location, *words) == 0
        writer = SmallTable(open_file_store_table(location))
        writer.epoch = 10 * number
        names = writer.table.schema.fields.names
        row = {"dt": "a", "k": number, "ts": 10 + number, "d": 7, "n": 2**31 - 1, "w": "w"}
        writer.commit(("+I", {name: value for name, value in row.items() if name in names}))
    expected = by_content(paimon_java.read(location))
    assert len(expected) == 4
    table = stream_app.open_table(location)
    assert by_content(normal_rows(table.read().read_all())) == expected
    assert by_content(normal_rows(pypaimon.read(location))) == expected
    changes = [batch.rows.num_rows for batch in table.changelog(snapshot=1)]
    assert sum(changes) == 4 + 3
    writer.committer.compact_fully()
    for rows in (paimon_java.read(location), normal_rows(pypaimon.read(location))):
        assert by_content(rows) == expected
    assert {file["schema_id"] for file in paimon_java.files(location)} == {3}
    sound_report(open_file_store_table(location))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DATE", dt.date(2024, 2, 29)),
        ("TIME(3)", dt.time(1, 2, 3)),
        ("TIMESTAMP(3)", dt.datetime.fromisoformat("2024-02-29T01:02:03")),
    ],
)
def test_a_time_that_becomes_a_text_may_be_null(
    paimon_java: PaimonJava, tmp_path: Path, kind: str, value: dt.date | dt.time
) -> None:
    """Paimon's Java turns a time into STRING, and not into STRING NOT NULL."""
    table = small_table(str(tmp_path / "db.db" / "t"), f"k INT, v {kind} NOT NULL", ("k",))
    table.commit(("+I", {"k": 1, "v": value}))
    location = table.path
    assert alter(location, "--change-type", "v STRING") == 0
    assert paimon_java.types(location)[1] == ("v", "STRING")
    assert normal_rows(stream_app.open_table(location).read().read_all()) == paimon_java.read(
        location
    )
