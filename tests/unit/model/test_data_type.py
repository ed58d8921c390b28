"""Types of columns beyond what tests/datadriven/model/types.txt shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.errors import UnsupportedTableError
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    DataType,
    TypeRoot,
    data_type_from_json,
    parse_columns,
    parse_data_type,
)


@st.composite
def data_types(draw: st.DrawFn) -> DataType:
    root = draw(st.sampled_from(TypeRoot))
    length = precision = scale = 0
    if root in STRING_ROOTS | BINARY_ROOTS:
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


@given(data_types())
def test_a_type_is_read_as_it_is_written(data_type: DataType) -> None:
    assert parse_data_type(str(data_type)) == data_type
    assert data_type_from_json(str(data_type), column="c") == data_type


@given(data_types())
def test_only_nullability_changes(data_type: DataType) -> None:
    assert str(data_type.not_null()).endswith(" NOT NULL")
    assert data_type.not_null().as_nullable() == data_type.as_nullable()
    assert data_type.as_nullable().root is data_type.root


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param({"type": "ARRAY", "element": "INT"}, "ARRAY", id="array"),
        pytest.param({"type": "ROW", "fields": []}, "ROW", id="row"),
        pytest.param("VARIANT", "VARIANT", id="variant"),
        pytest.param("BLOB", "BLOB", id="blob"),
    ],
)
def test_nested_types_are_refused_by_name(value: object, said: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        data_type_from_json(value, column="tags")
    assert str(caught.value) == (
        f"column 'tags' has the type {said}, which stream_app does not read or write yet\n"
        "  to fix: use a table whose columns are all scalar (store nested values as STRING, e.g. "
        "JSON)"
    )


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
