"""Images become rows as the port promises, without any format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, JsonKind
from stream_app.cdc.rows.images import ImageRows, Images, RowRules, rows_of_images
from stream_app.cdc.rows.record_images import RecordImages, rows_of_records
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns

COLUMNS = parse_columns("id BIGINT NOT NULL, v TINYINT")
ARROW = arrow_schema(COLUMNS)
READINGS = tuple(
    ColumnReading(
        name=column.name,
        data_type=column.data_type,
        arrow_type=ARROW.field(column.name).type,
        encoding=Encoding.NUMBER,
        scale=0,
        is_required=not column.data_type.nullable,
        is_key=column.name == "id",
    )
    for column in COLUMNS
)
Row = tuple[int | None, int | None] | None


def a_rule(**more: bool) -> RowRules:
    rules: dict[str, Any] = {"keeps_update_before": False, **more}
    return RowRules(schema=schema_of_changes(ARROW), **rules)


def decoded_records(
    *records: tuple[str, Row, Row], suspects: frozenset[int] = frozenset(), **more: bool
) -> ImageRows:
    def columns(side: int) -> list[pa.Array]:
        rows = [record[side] or (None, None) for record in records]
        return [
            pa.array([row[index] for row in rows], pa.int64()) for index in range(len(READINGS))
        ]

    images = Images(
        ops=np.array([ord(op) for op, _, _ in records], np.uint8),
        has_before=np.array([before is not None for _, before, _ in records]),
        has_after=np.array([after is not None for _, _, after in records]),
        json_kinds=[JsonKind.NUMBER] * len(READINGS),
        before=columns(1),
        after=columns(2),
        is_suspect=np.array([index in suspects for index in range(len(records))]),
        table_names=[pa.array([name] * len(records)) for name in ("shop", "public", "orders")],
    )
    before = images.is_suspect.copy()
    image_rows = rows_of_images(images, READINGS, a_rule(**more))
    assert (images.is_suspect == before).all(), "images are never changed"
    return image_rows


def listed_rows(rows: ImageRows) -> list[tuple[object, ...]]:
    kinds, *columns = (column.to_pylist() for column in rows.rows.columns)
    short = [RowKind(kind).short for kind in kinds]
    return list(zip(rows.record_indices.tolist(), short, *columns, strict=True))


CHANGES: tuple[tuple[str, Row, Row], ...] = (
    ("c", None, (1, 10)),
    ("u", (1, 10), (1, 11)),
    ("u", (1, 11), (2, 11)),
    ("d", (2, 11), None),
)


def test_an_update_gives_its_old_row_when_the_key_changes() -> None:
    rows = decoded_records(*CHANGES)
    assert listed_rows(rows) == [
        (0, "+I", 1, 10), (1, "+U", 1, 11), (2, "-U", 1, 11), (2, "+U", 2, 11), (3, "-D", 2, 11)
    ]  # fmt: skip
    assert rows.tables == {"shop.public.orders": 0}
    assert not rows.is_suspect.any()


def test_every_update_gives_its_old_row_when_it_is_wanted() -> None:
    rows = decoded_records(*CHANGES[1:2], keeps_update_before=True)
    assert listed_rows(rows) == [(0, "-U", 1, 10), (0, "+U", 1, 11)]


def test_suspects_and_what_does_not_fit_give_no_row() -> None:
    too_large, without_key = ("c", None, (3, 1000)), ("c", None, (None, 1))
    rows = decoded_records(
        *CHANGES[:1], too_large, without_key, *CHANGES[3:], suspects=frozenset({0})
    )
    assert listed_rows(rows) == [(3, "-D", 2, 11)]
    assert rows.is_suspect.tolist() == [True, True, True, False]
    assert rows.tables == {"shop.public.orders": 3}


def test_invented_values_of_before_images_are_forgotten() -> None:
    rows = decoded_records(("d", (2, 11), None), before_has_key_only=True)
    assert listed_rows(rows) == [(0, "-D", 2, None)]


def test_records_read_one_by_one_give_the_same_rows() -> None:
    def image(row: Row) -> dict[str, tuple[JsonKind, str]] | None:
        names = COLUMNS.names
        return row and {n: (JsonKind.NUMBER, str(v)) for n, v in zip(names, row, strict=True)}

    records = [RecordImages(op, image(before), image(after)) for op, before, after in CHANGES]
    odd = RecordImages("c", None, image((3, 1000)))
    rows = rows_of_records([*records, odd], READINGS, a_rule())
    expected = decoded_records(*CHANGES)
    assert rows.rows.equals(expected.rows)
    assert rows.record_indices.tolist() == expected.record_indices.tolist()
    assert rows.reasons == {4: "column 'v' (TINYINT): 1000 is out of range"}
