"""Tables of many shapes, for random epochs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from tests.support.tables.small_table import TIME_MS, SteppingClock

VALUES = "a INT, b STRING, c DECIMAL(10,2), d DOUBLE, e TIMESTAMP(6), f BYTES"
EVERY_KEY_TYPE = (
    "k1 BOOLEAN, k2 TINYINT, k3 SMALLINT, k4 INT, k5 BIGINT, k6 DECIMAL(9,2), k7 DECIMAL(18,0), "
    "k8 DECIMAL(38,10), k9 CHAR(3), k10 VARCHAR(20), k11 STRING, k12 BINARY(4), k13 VARBINARY(9), "
    "k14 BYTES, k15 DATE, k16 TIME(3), k17 TIMESTAMP(0), k18 TIMESTAMP(3), k19 TIMESTAMP(6), "
    "k20 TIMESTAMP(9), k21 TIMESTAMP(3) WITH LOCAL TIME ZONE, "
    "k22 TIMESTAMP(6) WITH LOCAL TIME ZONE"
)


@dataclass(frozen=True)
class Shape:
    """A kind of table and of load."""

    columns: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    epochs: int = 11
    rows: int = 40
    deletes: bool = True


CHANGELOG = {"changelog-producer": "input"}
LOW_TRIGGERS = {"num-sorted-run.compaction-trigger": "2"}
# What fills a buffer and a file with a few rows.
SMALL = {"write-buffer-size": "1 mb", "target-file-size": "4 kb", "page-size": "1 kb"}
SHAPES = {
    "one bucket": Shape(f"k INT, {VALUES}", ("k",), options={"bucket": "1", **LOW_TRIGGERS}),
    "changelog": Shape(f"k STRING, {VALUES}", ("k",), options={**CHANGELOG, **LOW_TRIGGERS}),
    "partitions": Shape(
        f"dt STRING, h INT, k BIGINT, {VALUES}", ("dt", "h", "k"), ("dt", "h"),
        {"bucket": "3", **CHANGELOG},
    ),
    "sequence field": Shape(
        f"k INT, ts BIGINT, {VALUES}", ("k",),
        options={"sequence.field": "ts", **CHANGELOG, **LOW_TRIGGERS},
    ),
    "no deletes": Shape(f"k DATE, {VALUES}", ("k",), options=LOW_TRIGGERS, deletes=False),
    "ignore delete": Shape(f"k INT, {VALUES}", ("k",), options={"ignore-delete": "true"}),
    "many small files": Shape(
        f"k INT, {VALUES}", ("k",), options={"bucket": "1", **SMALL, **LOW_TRIGGERS, **CHANGELOG},
        rows=400, epochs=6,
    ),
    "thin": Shape(
        f"k STRING, j INT, {VALUES}", ("j", "k"),
        options={"data-file.thin-mode": "true", **LOW_TRIGGERS},
    ),
    "every key type": Shape(
        f"{EVERY_KEY_TYPE}, {VALUES}", tuple(f"k{number}" for number in range(1, 23)),
        options={"bucket": "2", **LOW_TRIGGERS, **CHANGELOG},
    ),
    "wait for compaction": Shape(
        f"k INT, {VALUES}", ("k",),
        options={"prepare-commit.wait-compaction": "true", **LOW_TRIGGERS},
    ),
    "write-only": Shape(f"k INT, {VALUES}", ("k",), options={"write-only": "true"}, epochs=10),
    "no levels between": Shape(
        f"k INT, {VALUES}", ("k",),
        options={"num-levels": "2", "num-sorted-run.compaction-trigger": "3", "bucket": "2"},
    ),
    "rewrites everything": Shape(
        f"k INT, {VALUES}", ("k",),
        options={"compaction.force-rewrite-all-files": "true", **LOW_TRIGGERS},
    ),
}  # fmt: skip


def a_table(folder: Path, shape: Shape) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(shape.columns),
        primary_keys=shape.keys,
        partition_keys=shape.partitions,
        options={"bucket": "2", **shape.options},
        time_ms=TIME_MS,
    )
    return create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())
