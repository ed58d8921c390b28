"""Paimon and stream_app merge each other's files to the same rows, for each merge engine."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import MergeError
from stream_app.model.schema.data_type import TypeRoot, parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from tests.support.histories.random_changes import value_of
from tests.support.interop.compacted_tables import compact_fully
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.tables.function_columns import FUNCTION_COLUMNS, NEEDED_OPTIONS
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock
from tests.support.tables.snapshot_chain import check_chain

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
EVERY_TYPE = (
    "v1 BOOLEAN, v2 TINYINT, v4 INT, v5 BIGINT, v6 DECIMAL(9,2), v8 DECIMAL(38,10), v9 CHAR(3), "
    "v11 STRING, v14 BYTES, v15 DATE, v16 TIME(3), v18 TIMESTAMP(3), v19 TIMESTAMP(6), "
    "v22 TIMESTAMP(6) WITH LOCAL TIME ZONE, v23 FLOAT, v24 DOUBLE"
)
ORDERED = EVERY_TYPE.removeprefix("v1 BOOLEAN, ")
NUMBERS = (
    "v2 TINYINT, v3 SMALLINT, v4 INT, v5 BIGINT, v6 DECIMAL(9,2), v7 DECIMAL(18,4), "
    "v8 DECIMAL(38,10), v23 FLOAT, v24 DOUBLE"
)
ADDS, ALL = ("+I", "+U"), ("+I", "+U", "+U", "-U", "-D")


@dataclass(frozen=True, kw_only=True)
class EngineCase:
    """One engine and its options.

    Attributes:
        kinds: the row kinds, of which a test draws at random.
        small: columns whose values are drawn from few, so that they meet again.
    """

    columns: str
    options: Mapping[str, str]
    kinds: Sequence[str] = ADDS
    small: Sequence[str] = ()


def _partial(columns: str, **more: Any) -> EngineCase:
    options = {"merge-engine": "partial-update", **more.pop("options", {})}
    return EngineCase(columns=columns, options=options, **more)


def _aggregation(columns: str, **more: Any) -> EngineCase:
    options = {"merge-engine": "aggregation", **more.pop("options", {})}
    return EngineCase(columns=columns, options=options, **more)


def _per_column(columns: str, setting: str, value: str) -> dict[str, str]:
    return {f"fields.{name}.{setting}": value for name in parse_columns(columns).names}


GROUPS = "a INT, g BIGINT, b STRING, h1 INT, c INT, h2 INT, d STRING, e INT"
BY_GROUPS = {"fields.g.sequence-group": "b", "fields.h1,h2.sequence-group": "c,d"}
IN_GROUPS = {"small": ("g", "h1", "h2")}
CASES = {
    "partial update": _partial(EVERY_TYPE),
    "partial update by a sequence field": _partial(
        "a INT, s INT, t INT, b STRING", options={"sequence.field": "s,t"}, small=("s", "t")
    ),
    "partial update, deletes ignored": _partial(
        "a INT, b STRING", options={"ignore-delete": "true"}, kinds=ALL
    ),
    "partial update, deletes remove": _partial(
        "a INT, b STRING", kinds=ALL, options={"partial-update.remove-record-on-delete": "true"}
    ),
    "groups": _partial(GROUPS, options=BY_GROUPS, **IN_GROUPS),
    "groups and deletes": _partial(GROUPS, options=BY_GROUPS, kinds=ALL, **IN_GROUPS),
    "groups, deletes ignored": _partial(
        GROUPS, options={**BY_GROUPS, "ignore-delete": "true"}, kinds=ALL, **IN_GROUPS
    ),
    "a group removes": _partial(
        GROUPS, kinds=ALL, **IN_GROUPS,
        options={**BY_GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
    ),
    "two groups remove": _partial(
        GROUPS, kinds=ALL, **IN_GROUPS,
        options={**BY_GROUPS, "partial-update.remove-record-on-sequence-group": "g,h2"},
    ),
    "groups with functions": _partial(
        "g INT, s INT, p DOUBLE, m INT, n STRING, f INT, i STRING, l STRING, o INT, u STRING",
        small=("g", "i", "l", "u", "f"),
        options={
            "fields.g.sequence-group": "s,p,m,n,f,i,l,o,u",
            "fields.s.aggregate-function": "sum",
            "fields.p.aggregate-function": "product",
            "fields.m.aggregate-function": "max",
            "fields.n.aggregate-function": "min",
            "fields.f.aggregate-function": "first_value",
            "fields.i.aggregate-function": "first_non_null_value",
            "fields.l.aggregate-function": "listagg",
            "fields.o.aggregate-function": "last_value",
            "fields.u.aggregate-function": "last_non_null_value",
        },
    ),
    "groups with functions that undo": _partial(
        "g INT, s INT, p DOUBLE, m INT, f INT, o INT, u STRING, a INT", kinds=ALL, small=("g",),
        options={
            "fields.g.sequence-group": "s,p,m,f,o,u",
            "fields.default-aggregate-function": "last_non_null_value",
            "fields.s.aggregate-function": "sum",
            "fields.p.aggregate-function": "product",
            "fields.m.aggregate-function": "max",
            "fields.m.ignore-retract": "true",
            "fields.f.aggregate-function": "first_value",
            "fields.f.ignore-retract": "true",
            "fields.o.aggregate-function": "last_value",
        },
    ),
    "sum": _aggregation(
        NUMBERS, options=_per_column(NUMBERS, "aggregate-function", "sum"), kinds=ALL, small=("v6",)
    ),
    "product": _aggregation(NUMBERS, options=_per_column(NUMBERS, "aggregate-function", "product")),
    "product that undoes": _aggregation(
        "a DOUBLE, b FLOAT", kinds=ALL, options={"fields.default-aggregate-function": "product"}
    ),
    "max": _aggregation(ORDERED, options=_per_column(ORDERED, "aggregate-function", "max")),
    "min": _aggregation(ORDERED, options={"fields.default-aggregate-function": "min"}),
    "first value": _aggregation(
        EVERY_TYPE, options={"fields.default-aggregate-function": "first_value"}
    ),
    "first non-null value": _aggregation(
        EVERY_TYPE, options={"fields.default-aggregate-function": "first_non_null_value"}
    ),
    "last value": _aggregation(
        EVERY_TYPE, options={"fields.default-aggregate-function": "last_value"}, kinds=ALL
    ),
    "last non-null value": _aggregation(EVERY_TYPE, kinds=ALL),
    "truths": _aggregation(
        "a BOOLEAN, b BOOLEAN",
        options={
            "fields.a.aggregate-function": "bool_and", "fields.b.aggregate-function": "bool_or"
        },
    ),
    "texts": _aggregation(
        "a STRING, b STRING, c STRING", small=("a", "b", "c"),
        options={
            "fields.default-aggregate-function": "listagg", "fields.b.list-agg-delimiter": "-;",
            "fields.c.distinct": "true", "fields.c.list-agg-delimiter": "|",
        },
    ),
    "aggregation, deletes remove": _aggregation(
        "a INT, b STRING, c INT, d DOUBLE", kinds=ALL,
        options={
            "aggregation.remove-record-on-delete": "true", "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_non_null_value",
            "fields.c.aggregate-function": "last_value", "fields.d.aggregate-function": "product",
        },
    ),
    "aggregation, what cannot undo": _aggregation(
        "a INT, b STRING, c INT", kinds=ALL,
        options={
            **_per_column("a INT, b INT, c INT", "ignore-retract", "true"),
            "fields.a.aggregate-function": "max", "fields.b.aggregate-function": "listagg",
            "fields.c.aggregate-function": "first_value",
        },
    ),
    "aggregation by a sequence field": _aggregation(
        "a INT, s INT, b STRING", small=("s",),
        options={
            "sequence.field": "s",
            "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "first_value",
        },
    ),
    "first row": EngineCase(columns="a INT, b STRING", options={"merge-engine": "first-row"}),
    "first row, deletes ignored": EngineCase(
        columns="a INT, b STRING", kinds=ALL,
        options={"merge-engine": "first-row", "ignore-delete": "true"},
    ),
    "deduplicate by several columns": EngineCase(
        columns="a INT, s INT, t STRING", kinds=ALL, small=("s", "t"),
        options={"sequence.field": "s,t", "ignore-delete": "true"},
    ),
    "row kinds in a column": EngineCase(
        columns="a INT, kind STRING", kinds=ALL, options={"rowkind.field": "kind"},
    ),
}  # fmt: skip

VARIANTS = {
    "partial update, deletes ignored", "groups, deletes ignored", "groups and deletes",
    "two groups remove", "groups with functions", "product that undoes", "min", "first value",
    "last value", "aggregation, deletes remove", "first row, deletes ignored",
}  # fmt: skip
"""Options and functions in combinations whose parts other cases have."""
NAMES = [pytest.param(name, marks=[pytest.mark.variant] * (name in VARIANTS)) for name in CASES]


@dataclass
class Rows:
    """Random rows of a few keys, with nulls."""

    schema: TableSchema
    case: EngineCase
    rng: random.Random
    texts: Sequence[str] = ("", "a", "a|b", "b", "c|c|a", "d-;e")
    columns: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.columns = [column for column in self.schema.fields if column.name != "k"]

    def epoch(self, count: int) -> list[Change]:
        return [(self.rng.choice(self.case.kinds), self._row()) for _ in range(count)]

    def _row(self) -> Row:
        row: Row = {"k": self.rng.randrange(8)}
        for column in self.columns:
            if column.name == "kind":
                row[column.name] = self.rng.choice(self.case.kinds).lower()
                continue
            is_null = self.rng.random() < 0.25
            row[column.name] = None if is_null else self._value(column)
        return row

    def _value(self, column: Any) -> Any:
        if column.name not in self.case.small:
            return value_of(column.data_type, self.rng)
        match column.data_type.root:
            case TypeRoot.VARCHAR:
                return self.rng.choice(self.texts)
            case TypeRoot.DECIMAL:
                return Decimal(self.rng.randrange(-500, 500)).scaleb(-column.data_type.scale)
        return self.rng.randrange(5)


def _schema(case: EngineCase, **options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(f"k INT, {case.columns}"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "2", **case.options, **options},
        time_ms=TIME_MS,
    )


def _two_tables(folder: Path, case: EngineCase, **options: str) -> tuple[FileStoreTable, Path]:
    """A table of ours, and the place of a twin that Paimon alone writes."""
    schema = _schema(case, **options)
    table = create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())
    twin = create_or_open(str(folder / "db.db" / "twin"), schema, SteppingClock())
    return table, Path(twin.location)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_a_table_that_paimon_alone_writes(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """The rows agree after each flush, compaction and restart; our table's writers take turns."""
    case, rng = CASES[name], random.Random(f"{seed} {name}")
    table, twin = _two_tables(tmp_path, case, **{"write-only": "true"})
    writer, changes = TableWriter(table), Rows(table.schema, case, rng)
    compacting = replace(table, schema=_schema(case))
    theirs = {"write-only": True}
    for step in range(9):
        epoch = changes.epoch(rng.choice([5, 40]))
        if rng.random() < 0.7:
            writer.write(epoch)
        else:
            paimon_java.write(table.location, epoch, identifier=100 + step, options=theirs)
        paimon_java.write(twin, epoch, identifier=step, options=theirs)
        if rng.random() < 0.3:
            if rng.random() < 0.7:
                compact_fully(compacting)
            else:
                paimon_java.compact(table.location, options={"write-only": False})
            paimon_java.compact(twin, options={"write-only": False})
        if rng.random() < 0.2:
            writer.restart()
        expected = by_content(paimon_java.read(twin))
        assert by_content(read_rows(table)) == expected
        assert by_content(paimon_java.read(table.location)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_paimon_reads_what_our_compactions_leave(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """Our compactions merge a few files each, as they become due; some reads take few columns."""
    case, rng = CASES[name], random.Random(f"{seed} {name} compacted")
    table, _ = _two_tables(tmp_path, case, **{"num-sorted-run.compaction-trigger": "2"})
    writer, changes = TableWriter(table), Rows(table.schema, case, rng)
    for _ in range(6):
        writer.write(changes.epoch(20))
        rows = paimon_java.read(table.location)
        assert by_content(read_rows(table)) == by_content(rows)
    writer.commit.compact_due()
    rows = paimon_java.read(table.location)
    assert by_content(read_rows(table)) == by_content(rows)
    for column in table.schema.fields.names:
        narrow = normal_rows(PaimonTable(table).read(columns=[column]).read_all())
        assert by_content(narrow) == by_content({column: row[column]} for row in rows)
    check_chain(table)


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
@pytest.mark.parametrize("function", sorted(FUNCTION_COLUMNS))
def test_we_refuse_the_rows_that_paimon_commits_and_never_reads_again(
    paimon_java: PaimonJava, tmp_path: Path, function: str, engine: str
) -> None:
    """Each row is alone in its commit, as a delete often is."""
    kind, value, _ = FUNCTION_COLUMNS[function]
    options = {"merge-engine": engine, "fields.v.aggregate-function": function}
    options |= {"fields.g.sequence-group": "v"} if engine == "partial-update" else {}
    options |= NEEDED_OPTIONS.get(function, {})
    for retract in ("-U", "-D"):
        case = EngineCase(columns=f"g INT, v {kind}", options={"write-only": "true", **options})
        table, twin = _two_tables(tmp_path / retract, case)
        row = {"k": 1, "g": 1, "v": value}
        for identifier, change in enumerate([("+I", row), (retract, row)]):
            paimon_java.write(twin, [change], identifier=identifier)
        writer = TableWriter(table)
        writer.write([("+I", row)])
        error = _error_of(paimon_java, twin)
        if error is None:
            writer.write([(retract, row)])
            assert by_content(read_rows(table)) == by_content(paimon_java.read(twin))
            continue
        assert error.root_class == "java.lang.UnsupportedOperationException"
        with pytest.raises(MergeError, match=f"function {function} cannot undo"):
            writer.write([(retract, row)])
        assert len(paimon_java.read(table.location)) == 1


def _error_of(paimon_java: PaimonJava, path: Path) -> PaimonError | None:
    """Return the error of a read of the table; None if the read succeeds."""
    try:
        paimon_java.read(path)
    except PaimonError as error:
        return error
    return None


def test_a_flush_of_paimon_keeps_the_largest_value_whatever_the_order(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Paimon's write buffer sorts ascending; its other parts, and all of ours, obey sort-order."""
    options = {"sequence.field": "s", "sequence.field.sort-order": "descending"}
    table, twin = _two_tables(tmp_path, EngineCase(columns="s INT", options=options))
    writer, pairs = TableWriter(table), []
    for identifier, values in enumerate(((2, 5), (4,), (1, 3))):
        changes: list[Change] = [("+I", {"k": 1, "s": value}) for value in values]
        writer.write(changes)
        paimon_java.write(twin, changes, identifier=identifier)
        [ours], [theirs] = read_rows(table), paimon_java.read(twin)
        assert paimon_java.read(table.location) == [ours]
        pairs.append((ours["s"], theirs["s"]))
    assert pairs == [(2, 5), (2, 4), (1, 3)]
