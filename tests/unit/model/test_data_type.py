"""Types of columns beyond what tests/datadriven/model/types.txt shows."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    NESTED_ROOTS,
    STRING_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
    parse_columns,
    parse_data_type,
)
from stream_app.model.schema.type_widening import keeps_values


@st.composite
def scalar_types(draw: st.DrawFn) -> DataType:
    root = draw(st.sampled_from([root for root in TypeRoot if root not in NESTED_ROOTS]))
    length = precision = scale = 0
    if root in STRING_ROOTS | BINARY_ROOTS - {TypeRoot.BLOB}:
        length = draw(st.integers(1, 2**31 - 1))
    elif root is TypeRoot.DECIMAL:
        precision = draw(st.integers(1, 38))
        scale = draw(st.integers(0, precision))
    elif root in (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        precision = draw(st.integers(0, 9))
    return DataType(
        root=root,
        nullable=draw(st.booleans()),
        length=length,
        precision=precision,
        scale=scale,
    )


def _array(element: DataType) -> DataType:
    return DataType(root=TypeRoot.ARRAY, element=element)


def _row(types: list[DataType]) -> DataType:
    columns = (
        DataField(field_id=0, name=f"f,(<>> {index}", data_type=data_type)
        for index, data_type in enumerate(types)
    )
    fields = RowType(tuple(columns)).with_new_ids().fields
    return DataType(root=TypeRoot.ROW, nullable=False, fields=fields)


def data_types() -> st.SearchStrategy[DataType]:
    """Scalar types, and such inside of others."""
    return st.recursive(
        scalar_types(),
        lambda inner: st.one_of(
            inner.map(_array),
            st.builds(DataType, root=st.just(TypeRoot.MAP), key=inner, element=inner),
            st.lists(inner, min_size=1, max_size=3).map(_row),
        ),
        max_leaves=5,
    )


@given(data_types())
def test_a_type_is_read_as_it_is_written(data_type: DataType) -> None:
    assert parse_data_type(str(data_type)) == data_type


@given(data_types())
def test_only_nullability_changes(data_type: DataType) -> None:
    assert str(data_type.not_null()).endswith(" NOT NULL")
    assert data_type.not_null().as_nullable() == data_type.as_nullable()
    assert data_type.as_nullable().root is data_type.root


def test_columns_by_name() -> None:
    row = parse_columns("a INT, b STRING, c BIGINT NOT NULL")
    assert len(row) == 3
    assert row.names == ("a", "b", "c")
    assert row.types[2] == parse_data_type("BIGINT NOT NULL")
    assert row.field("b").field_id == 1
    # A projection keeps the ids of the columns, in the order that is asked for.
    assert [(field.field_id, field.name) for field in row.project(["c", "a"])] == [
        (2, "c"),
        (0, "a"),
    ]
    with pytest.raises(KeyError, match="d"):
        row.field("d")


ROWS = "ARRAY<ROW<a INT NOT NULL, b STRING>>"


@pytest.mark.parametrize(
    ("wanted_type", "keeps"),
    [
        (ROWS, True),
        (f"{ROWS} NOT NULL", True),
        ("ARRAY<ROW<a INT, b STRING>>", True),
        ("ARRAY<ROW<a INT NOT NULL, b STRING NOT NULL>>", False),
        ("ARRAY<ROW<a INT NOT NULL, b STRING> NOT NULL>", False),
        ("ARRAY<ROW<a BIGINT NOT NULL, b STRING>>", True),
        ("ARRAY<ROW<a SMALLINT NOT NULL, b STRING>>", False),
        ("ARRAY<ROW<a INT NOT NULL, b STRING, c INT>>", True),
        ("ARRAY<ROW<a INT NOT NULL, b STRING, c INT NOT NULL>>", False),
        ("ARRAY<ROW<a INT NOT NULL, c STRING>>", False),
        ("ARRAY<ROW<a INT NOT NULL>>", False),
        ("MAP<INT, ROW<a INT NOT NULL, b STRING>>", False),
    ],
)
def test_a_nested_type_keeps_its_values_where_its_members_do(wanted_type: str, keeps: bool) -> None:
    stored_type = parse_data_type(ROWS)
    assert keeps_values(stored_type, parse_data_type(wanted_type)) is keeps
    assert keeps_values(stored_type, stored_type.with_new_ids(count(7)))
