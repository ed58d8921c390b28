"""Paimon reads our columns of type ARRAY, MAP and ROW, and we continue its tables."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stream_app.format.schema_json import field_objects
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.opening import create_or_open, open_file_store_table
from tests.support.interop.compacted_tables import compact_fully
from tests.support.interop.nested_rows import EVERY_TYPE, Rows
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
ADDS, ALL = ("+I", "+U"), ("+I", "+U", "+U", "-U", "-D")
DEEP = (
    f"k INT, r ROW<{EVERY_TYPE}>, a ARRAY<ROW<{EVERY_TYPE}>>, "
    "m MAP<STRING, ARRAY<DECIMAL(18, 4)>>, "
    "n ARRAY<MAP<INT, ROW<p ROW<q ARRAY<STRING NOT NULL>>, z INT>>> NOT NULL, last BIGINT"
)
FUNCTIONS = {
    "c": "collect", "d": "collect", "e": "collect", "m": "merge_map", "n": "nested_update",
    "o": "nested_update", "p": "nested_update",
}  # fmt: skip
OPTIONS = {
    **{f"fields.{name}.aggregate-function": function for name, function in FUNCTIONS.items()},
    "fields.d.distinct": "true", "fields.e.distinct": "true",
    "fields.n.nested-key": "x,y", "fields.p.count-limit": "4",
}  # fmt: skip
COLUMNS = (
    "k INT, c ARRAY<INT>, d ARRAY<STRING>, e ARRAY<ROW<x INT, y STRING> NOT NULL>, "
    "m MAP<STRING, INT>, n ARRAY<ROW<x INT, y STRING>>, o ARRAY<ROW<x INT, y STRING>>, "
    "p ARRAY<ROW<x INT, y INT, z INT>>"
)
UNORDERED = frozenset("denh")
"""Columns whose elements Paimon takes out of a hash map."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of table: columns, options, and the kinds of its rows."""

    columns: str
    options: dict[str, str]
    kinds: tuple[str, ...] = ADDS

    def schema(self, **more: str) -> TableSchema:
        return new_table_schema(
            columns=parse_columns(self.columns),
            primary_keys=("k",),
            partition_keys=(),
            options={"bucket": "2", **self.options, **more},
            time_ms=TIME_MS,
        )


AGGREGATION = {"merge-engine": "aggregation", **OPTIONS}
NEVER_BACK = "h ARRAY<ROW<x INT, y INT, z STRING>>, i MAP<STRING, ROW<x INT, ts STRING>>"
KINDS = {
    "functions that undo": Kind(columns=COLUMNS, options=AGGREGATION, kinds=ALL),
    "functions, deletes remove": Kind(
        columns=COLUMNS, kinds=ALL,
        options={**AGGREGATION, "aggregation.remove-record-on-delete": "true"},
    ),
    "functions that cannot undo": Kind(
        columns=f"k INT, {NEVER_BACK}",
        options={
            "merge-engine": "aggregation", "fields.h.nested-key": "x",
            "fields.h.aggregate-function": "nested_partial_update",
            "fields.i.aggregate-function": "merge_map_with_keytime",
        },
    ),
    "groups with functions": Kind(
        columns=f"{COLUMNS}, g INT", kinds=ALL,
        options={
            "merge-engine": "partial-update", **OPTIONS, "fields.g.sequence-group": "c,d,e,m,n,o,p"
        },
    ),
    "lookup changelog": Kind(
        columns=COLUMNS,
        options={
            **AGGREGATION, "changelog-producer": "lookup",
            "changelog-producer.row-deduplicate": "true", "deletion-vectors.enabled": "true",
        },
    ),
}  # fmt: skip


def rows_without_order(
    rows: Iterable[Row], unordered_names: Collection[str] = UNORDERED
) -> list[str]:
    """Return a value without the order of elements where Paimon has none."""
    return by_content(
        {
            name: sorted(value, key=repr) if name in unordered_names and value else value
            for name, value in row.items()
        }
        for row in rows
    )


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_those_of_a_table_that_paimon_alone_writes(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, name: str
) -> None:
    """The rows agree after each flush, compaction and restart; our table's writers take turns."""
    kind, rng = KINDS[name], random.Random(f"{seed} {name}")
    write_only_option = {"write-only": "true"}
    table = create_or_open(
        str(tmp_path / "db.db" / "t"), kind.schema(**write_only_option), SteppingClock()
    )
    twin = tmp_path / "db.db" / "twin"
    create_or_open(str(twin), kind.schema(**write_only_option), SteppingClock())
    writer, changes = TableWriter(table), Rows(table.schema, kind.kinds, rng)
    for step in range(5):
        epoch = changes.epoch(rng.choice([4, 25]))
        if step % 3 != 2:
            writer.write(epoch)
        else:
            paimon_java.write(
                table.location, epoch, identifier=100 + step, options=write_only_option
            )
        paimon_java.write(twin, epoch, identifier=step, options=write_only_option)
        if step % 2:
            if step % 4 == 1:
                compact_fully(replace(table, schema=kind.schema()))
            else:
                paimon_java.compact(table.location, options={"write-only": False})
            paimon_java.compact(twin, options={"write-only": False})
            writer.restart()
        expected = rows_without_order(paimon_java.read(twin))
        assert rows_without_order(read_rows(table)) == expected
        assert rows_without_order(paimon_java.read(table.location)) == expected
    if table.options.writes_changelog:
        ours, theirs = (
            [(k, r) for plan in paimon_java.changelog(path) for k, r in plan.changes]
            for path in (table.location, twin)
        )
        assert rows_without_order({"": k, **r} for k, r in ours) == rows_without_order(
            {"": k, **r} for k, r in theirs
        )


def test_every_type_at_any_depth_is_read_alike(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int
) -> None:
    """Our files and Paimon's have the same Parquet schema, ids included, and say the same of it.

    Ids of our tables begin at 1 and Paimon's at 0, so Paimon writes into a table of ours.
    """
    rng = random.Random(seed)
    columns = parse_columns(DEEP)
    theirs, ours, javas = (tmp_path / "db.db" / name for name in ("theirs", "ours", "javas"))
    kind = Kind(columns=DEEP, options={"bucket": "1"})
    schema = kind.schema()
    table = create_or_open(str(ours), schema, SteppingClock())
    create_or_open(str(theirs), schema, SteppingClock())
    paimon_java.create(
        javas,
        [(str(field["name"]), without_ids(field["type"])) for field in field_objects(schema)],
        primary_keys=["k"], options={"bucket": "1"},
    )  # fmt: skip
    of_java, of_us = (
        json.loads((path / "schema" / "schema-0").read_bytes()) for path in (javas, ours)
    )
    assert ids_from_zero(of_us["fields"]) == of_java["fields"]
    assert of_us["highestFieldId"] == of_java["highestFieldId"] + 1 == schema.fields.highest_id
    assert json.loads(json.dumps(field_objects(schema))) == of_us["fields"]
    assert len(columns) == len(of_us["fields"])
    epoch = Rows(schema, ADDS, rng).epoch(30)
    TableWriter(table).write(epoch)
    paimon_java.write(theirs, epoch, identifier=1)
    expected = by_content(paimon_java.read(theirs))
    assert by_content(paimon_java.read(ours)) == by_content(read_rows(table)) == expected
    assert by_content(read_rows(open_file_store_table(str(theirs)))) == expected
    assert by_content(normal_rows(pypaimon.read(ours))) == expected
    assert stored_columns(ours) == stored_columns(theirs)
    files = [paimon_java.read(f"{path}$files")[0] for path in (ours, theirs)]
    for statistic in ("null_value_counts", "min_value_stats", "max_value_stats"):
        assert files[0][statistic] == files[1][statistic]


def without_ids(value: Any) -> Any:
    """A type's JSON, of which Paimon makes the ids."""
    if isinstance(value, dict):
        return {key: without_ids(member) for key, member in value.items() if key != "id"}
    return [without_ids(element) for element in value] if isinstance(value, list) else value


def ids_from_zero(value: Any) -> Any:
    """A schema's JSON with each id one less."""
    if isinstance(value, dict):
        return {k: v - 1 if k == "id" else ids_from_zero(v) for k, v in value.items()}
    return [ids_from_zero(item) for item in value] if isinstance(value, list) else value


def stored_columns(path: Path) -> list[str]:
    """Return Parquet's description of a file's columns, without the parts that readers ignore."""
    (file,) = path.glob("bucket-0/data-*.parquet")
    lines = str(pq.read_metadata(file).schema).splitlines()[2:]
    return [re.sub(r"(?<=Time\()isAdjustedToUTC=\w+|(?<=key_value) \(Map\)", "", x) for x in lines]
