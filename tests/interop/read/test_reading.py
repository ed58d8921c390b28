"""Our readers return the same rows as Paimon's Java reader and PyPaimon: with conditions, columns
and versions, and between two versions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stream_app
from stream_app import PaimonTable
from stream_app.format.arrow_schema import arrow_schema
from tests.support.histories.random_changes import RandomChanges
from tests.support.interop.every_type import TABLES
from tests.support.interop.written_tables import SIGNS, write_epochs
from tests.support.jobs.table_writer import by_content
from tests.support.judges.normal_rows import Row, normal_rows, normal_value
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def rows(reader: pa.RecordBatchReader) -> list[str]:
    return by_content(normal_rows(reader.read_all()))


def with_text(reader: pa.RecordBatchReader) -> list[tuple[Row, str]]:
    rows = normal_rows(reader.read_all())
    return [(row, by_content([row])[0]) for row in rows]


def kind_and_text(row: Row) -> tuple[str, str]:
    """A row's kind, and the rest as text."""
    values = dict(row)
    kind = values.pop("rowkind")
    return kind, by_content([values])[0]


def key_of(row: Row, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def condition(
    noise: random.Random, table: PaimonTable, rows: pa.Table
) -> tuple[pc.Expression, dict[str, Any]]:
    """A condition that some row passes, in our form and in that of the Java harness."""
    exact = [
        field.name
        for field in table.schema
        if not pa.types.is_floating(field.type)  # NaN has another place in Arrow's order
    ]
    ours, theirs = pc.scalar(True), dict[str, Any]()
    for name in noise.sample(exact, min(len(exact), noise.choice([1, 1, 2]))):
        value = rows.column(name)[noise.randrange(rows.num_rows)]
        plain = normal_rows(pa.table({name: pa.array([value], value.type)}))[0][name]
        if not value.is_valid:
            ours, theirs[name] = ours & pc.field(name).is_null(), None
            continue
        # Java's conditions compare bytes as signed numbers; keys of both are in unsigned order.
        signs = ["=", "!="] if pa.types.is_binary(value.type) else list(SIGNS)
        sign = noise.choice(signs)
        ours = ours & SIGNS[sign](pc.field(name), pc.scalar(value))
        theirs[name] = plain if sign == "=" else {"op": sign, "value": plain}
    return ours, theirs


@pytest.mark.parametrize("name", TABLES)
def test_conditions_and_columns_give_what_java_gives(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    location = write_epochs(tmp_path, name, seed).location
    table = stream_app.open_table(location)
    noise = random.Random(seed)
    whole = table.read().read_all()
    assert whole.num_rows
    for _ in range(12):
        where, java_condition = condition(noise, table, whole)
        columns = noise.sample(table.schema.names, noise.randrange(1, len(table.schema) + 1))
        expected = paimon_java.read(location, where=java_condition)
        expected = [{column: row[column] for column in columns} for row in expected]
        assert rows(table.read(columns=columns, where=where)) == by_content(expected), (
            where,
            java_condition,
        )


def assert_differences(
    table: PaimonTable, start: int, end: int, reader: pa.RecordBatchReader, javas: list[Row]
) -> None:
    """`found` are the rows by which two versions differ, and of the kinds that Java gives them.

    Java tells of rows that did not change as well, and can miss some that did (see diff_read).
    """
    before, after = (set(rows(table.read(snapshot=number))) for number in (start, end))
    all_rows = normal_rows(reader.read_all())
    kinds = {text: kind for kind, text in map(kind_and_text, javas)}
    added_rows, removed_rows = set[str](), set[str]()
    for kind, text in map(kind_and_text, all_rows):
        (removed_rows if kind == "-D" else added_rows).add(text)
        assert kind == "-D" or kinds.get(text, kind) == kind
    keys = table.table.schema.primary_keys
    assert len(all_rows) == len(added_rows) + len(removed_rows)
    assert added_rows == after - before
    remaining_keys = {key_of(row, keys) for row in normal_rows(table.read(snapshot=end).read_all())}
    assert removed_rows == {
        text
        for row, text in with_text(table.read(snapshot=start))
        if key_of(row, keys) not in remaining_keys
    }


@pytest.mark.parametrize(
    "options",
    [{"deletion_vectors__enabled": "true", "changelog_producer": "lookup"},
     {"merge_engine": "first-row", "changelog_producer": "lookup"}],
)  # fmt: skip
def test_java_skips_new_files_between_versions_where_reads_do(
    paimon_java: PaimonJava, tmp_path: Path, options: dict[str, str]
) -> None:
    small = small_table(tmp_path / "db.db" / "t", "k INT, v INT", ("k",), **options)
    for value in (1, 2):
        small.commit(("+I", {"k": 1, "v": value}), ("+I", {"k": 10 + value, "v": 0}))
        small.compact()
    last = small.table.snapshots.ids()[-1]
    answers = {}
    for mode in ("delta", "changelog"):
        options = {"incremental-between": f"1,{last}", "incremental-between-scan-mode": mode}
        answers[mode] = (
            rows(
                PaimonTable(small.table).read_incremental((1, last), scan_mode=mode, row_kind=True)
            ),
            by_content(paimon_java.read(f"{small.table.location}$audit_log", options=options)),
        )
    assert [len(answer) for answer in answers["delta"]] == [2, 0]
    assert answers["changelog"][0] == answers["changelog"][1] != []


@pytest.mark.parametrize("name", ["every type", "partitions", "thin", "small files"])
def test_versions_and_incremental_reads_equal_javas(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """The test reads snapshots, two tags, and changes between snapshots in each scan mode."""
    store = write_epochs(tmp_path, name, seed)
    location, table = store.location, stream_app.open_table(store.location)
    numbers = store.snapshots.ids()
    for number in numbers:
        assert rows(table.read(snapshot=number)) == by_content(
            paimon_java.read(location, snapshot=number)
        )
        time = store.snapshots.snapshot(number).time_ms
        assert rows(table.read(timestamp=time)) == by_content(
            paimon_java.read(location, options={"scan.timestamp-millis": time})
        )
    noise = random.Random(seed)
    for mode in ("delta", "diff", "changelog"):
        if mode == "changelog" and not store.options.writes_changelog:
            continue
        for _ in range(4):
            start, end = sorted(noise.sample(numbers, 2))
            options = {"incremental-between": f"{start},{end}",
                       "incremental-between-scan-mode": mode}  # fmt: skip
            expected = paimon_java.read(f"{location}$audit_log", options=options)
            reader = table.read_incremental((start, end), scan_mode=mode, row_kind=True)
            if mode == "diff":
                assert_differences(table, start, end, reader, expected)
            else:
                assert rows(reader) == by_content(expected), (mode, start, end)
            times = [store.snapshots.snapshot(number).time_ms for number in (start, end)]
            # From before the first snapshot: 1.4 compares with that one, later ones with none.
            back = [0] if mode == "diff" else [0, 1, 10**6]
            low, high = times[0] - noise.choice(back), times[1] + noise.choice([0, 1])
            options = {"incremental-between-timestamp": f"{low},{high}",
                       "incremental-between-scan-mode": mode}  # fmt: skip
            expected = paimon_java.read(f"{location}$audit_log", options=options)
            reader = table.read_incremental(
                between_timestamps=(low, high), scan_mode=mode, row_kind=True
            )
            if mode == "diff":
                first = 1 if low < times[0] else start
                assert_differences(table, first, end, reader, expected)
            else:
                assert rows(reader) == by_content(expected), (mode, low, high)
    paimon_java.tag(location, "early", numbers[1])
    paimon_java.tag(location, "late", numbers[-1])
    assert rows(table.read(tag="early")) == by_content(
        paimon_java.read(location, options={"scan.tag-name": "early"})
    )
    expected = paimon_java.read(
        f"{location}$audit_log", options={"incremental-between": "early,late"}
    )
    reader = table.read_incremental(("early", "late"), row_kind=True)
    assert_differences(table, numbers[1], numbers[-1], reader, expected)
    tags = {row["tag_name"]: row for row in paimon_java.read(f"{location}$tags")}
    for tag in store.tags.tags():
        theirs = tags.pop(tag.name)
        assert tag.snapshot.snapshot_id == theirs["snapshot_id"]
        created_time = pa.scalar(tag.create_time_ms, pa.int64()).cast(pa.timestamp("ms")).as_py()
        assert normal_value({"t": created_time})["t"] == theirs["create_time"]
    assert tags == {}


def test_pypaimon_reads_the_same_columns_and_keys(
    pypaimon: PyPaimonReader, tmp_path: Path, seed: int
) -> None:
    for name in ("partitions", "small files", "no changelog"):
        location = write_epochs(tmp_path / name, name, seed).location
        table = stream_app.open_table(location)
        whole = table.read().read_all()
        columns = table.schema.names[:2]
        paimon_rows = normal_rows(pypaimon.read(location, columns=columns))
        assert rows(table.read(columns=columns)) == by_content(paimon_rows)
        for place in (0, whole.num_rows // 2):
            key = whole.column("k")[place].as_py()
            text = f"k = {key}" if isinstance(key, int) else "k = '" + key.replace("'", "''") + "'"
            paimon_rows = normal_rows(pypaimon.read(location, where={"k": key}))
            assert rows(table.read(where=text)) == by_content(paimon_rows)


@pytest.mark.parametrize("keys", [("k",), ()])
def test_conditions_on_what_java_wrote(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, keys: tuple[str, ...]
) -> None:
    """Levels and statistics by Java; with and without a key, with deletion vectors without."""
    noise = random.Random(seed)
    location = tmp_path / "db.db" / "t"
    options: Mapping[str, Any] = {"bucket": 2, "num-sorted-run.compaction-trigger": 3}
    if not keys:
        options = {"bucket": -1, "deletion-vectors.enabled": True}
    not_null = " NOT NULL" if keys else ""
    paimon_java.create(
        location,
        [("k", f"INT{not_null}"), ("s", "STRING"), ("d", "DECIMAL(20,2)"), ("t", "TIMESTAMP(6)"),
         ("day", "DATE"), ("b", "BOOLEAN"), ("l", "BIGINT")],
        primary_keys=keys, options=options,
    )  # fmt: skip
    table_schema = arrow_schema(stream_app.open_table(location).table.schema.fields)
    changes = RandomChanges(stream_app.open_table(location).table.schema, noise)
    for number in range(5):
        epoch = [(kind, _normal(row)) for kind, row in changes.epoch(40)]
        if not keys:
            epoch = [("+I", row) for _, row in epoch]
        paimon_java.write(location, epoch, identifier=number)
    if not keys:
        first = paimon_java.files(location)[0]
        paimon_java.delete_rows(location, {first["file_name"]: range(0, first["row_count"], 3)})
    table = stream_app.open_table(location)
    assert table.schema == table_schema
    whole = table.read().read_all()
    assert rows(table.read()) == by_content(paimon_java.read(location))
    for _ in range(15):
        where, java_condition = condition(noise, table, whole)
        assert rows(table.read(where=where)) == by_content(
            paimon_java.read(location, where=java_condition)
        ), (where, java_condition)


@pytest.mark.parametrize("keys", [("k",), ()])
def test_conditions_on_a_table_whose_columns_java_has_changed(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, keys: tuple[str, ...]
) -> None:
    """Java widens columns, swaps their names, and drops and adds some; compacted or not."""
    noise = random.Random(seed)
    location = tmp_path / "db.db" / "t"
    not_null = " NOT NULL" if keys else ""
    paimon_java.create(
        location,
        [("k", f"INT{not_null}"), ("a", "INT"), ("b", "INT"), ("d", "DECIMAL(9,2)"),
         ("gone", "STRING"), ("s", "STRING")],
        primary_keys=keys, options={"bucket": 1 if keys else -1, "write-only": True},
    )  # fmt: skip
    steps: list[list[tuple[str, ...]]] = [
        [],
        [("type", "a", "BIGINT"), ("type", "d", "DECIMAL(20,4)")],
        [("rename", "a", "c"), ("rename", "b", "a"), ("rename", "c", "b")],
        [("drop", "gone"), ("add", "new", "INT")],
        [("type", "a", "DECIMAL(12,0)"), ("add", "gone", "BIGINT")],
    ]
    for number, changes in enumerate(steps):
        if changes:
            paimon_java.alter(location, *changes)
        epoch = RandomChanges(stream_app.open_table(location).table.schema, noise).epoch(15)
        paimon_java.write(
            location,
            [(kind if keys else "+I", _normal(row)) for kind, row in epoch],
            identifier=number,
        )
        if number == 2 and keys:
            paimon_java.compact(location)
    table = stream_app.open_table(location)
    whole = table.read().read_all()
    assert rows(table.read()) == by_content(paimon_java.read(location))
    for _ in range(25):
        where, java_condition = condition(noise, table, whole)
        assert rows(table.read(where=where)) == by_content(
            paimon_java.read(location, where=java_condition)
        ), (where, java_condition)


def _normal(row: Mapping[str, Any]) -> Row:
    value = normal_value(dict(row))
    assert isinstance(value, dict)
    return value


NAN = float("nan")


@pytest.mark.parametrize(
    ("order", "values", "newest"),
    [
        ("ascending", [1.0, NAN], 1),
        ("ascending", [NAN, None], 0),
        ("ascending", [3.0, -1.0, NAN, None], 2),
        ("ascending", [-0.0, 0.0], 1),
        ("descending", [NAN, 1.0], 1),
        ("descending", [NAN, 3.0, -1.0], 2),
        ("descending", [0.0, -0.0], 1),
    ],
)
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_nan_in_a_sequence_field(
    tmp_path: Path, paimon_java: PaimonJava, kind: str, order: str,
    values: list[float | None], newest: int,
) -> None:  # fmt: skip
    """Cases in which Paimon 1.4, for which NaN equals every number, agrees with 2.0."""
    options = {"sequence.field": "s", "sequence.field.sort-order": order, "write-only": "true"}
    table = small_table(
        tmp_path / "db.db" / "t", f"k INT, s {kind}, n INT", ("k",), **options
    )  # fmt: skip
    for number, value in enumerate(values):
        table.commit(("+I", {"k": 1, "s": value, "n": number}))
    rows = normal_rows(PaimonTable(table.table).read().read_all())
    assert [row["n"] for row in rows] == [newest]
    assert [row["n"] for row in paimon_java.read(table.path)] == [newest]


def test_a_number_behind_nan_in_a_sequence_field(tmp_path: Path, paimon_java: PaimonJava) -> None:
    """NaN stays the newest, as from Paimon 2.0 on; for 1.4 the two are equal, so the later wins."""
    table = small_table(
        tmp_path / "db.db" / "t", "k INT, s DOUBLE, n INT", ("k",),
        **{"sequence.field": "s", "write-only": "true"},
    )  # fmt: skip
    table.commit(("+I", {"k": 1, "s": NAN, "n": 0}))
    table.commit(("+I", {"k": 1, "s": 1.0, "n": 1}))
    rows = normal_rows(PaimonTable(table.table).read().read_all())
    assert [row["n"] for row in rows] == [0]
    assert [row["n"] for row in paimon_java.read(table.path)] == [1]
