"""Directory names of partitions equal Java's."""

from __future__ import annotations

import decimal
from typing import Any

import pytest

from stream_app.errors import UnsupportedTableError
from stream_app.format.binary_row import deserialize_row, serialize_row
from stream_app.format.partition_path import partition_path
from stream_app.model.schema.data_type import parse_data_type
from tests.unit.format.vectors import python_value_of, row_type, vectors

DEFAULT = "__DEFAULT_PARTITION__"
DIRECTORIES = [
    pytest.param(case, id=f"{case['type']}-{case['value']!r}")
    for case in vectors()["partition_directories"]
]


@pytest.mark.parametrize("case", DIRECTORIES)
def test_directories_are_those_of_java(case: dict[str, Any]) -> None:
    columns = row_type(("p", case["type"]))
    data_type = columns.types[0]
    value = python_value_of(case["value"], data_type)
    partition = bytes.fromhex(case["partition_bytes_hex"])
    assert serialize_row([value], [data_type]) == partition
    values = deserialize_row(partition, [data_type])
    for legacy, key in ((True, "dir_legacy_name_true_default"), (False, "dir_legacy_name_false")):
        path = partition_path(values, columns, default_name=DEFAULT, uses_legacy_names=legacy)
        assert path + "/" == case[key]


def text_of(type_text: str, value: object, *, legacy: bool) -> str:
    columns = row_type(("p", type_text))
    path = partition_path((value,), columns, default_name=DEFAULT, uses_legacy_names=legacy)
    return path.removeprefix("p=").replace("%3A", ":")


SECOND = 10**9


@pytest.mark.parametrize(
    ("type_text", "value", "legacy", "modern"),
    [
        ("INT", -5, "-5", "-5"),
        ("STRING", "\u00a0", "\u00a0", "\u00a0"),
        ("STRING", "\u2003\t", DEFAULT, DEFAULT),
        ("STRING", "a b&~.|,;@$!()<>`+ä", "a b&~.|,;@$!()<>`+ä", "a b&~.|,;@$!()<>`+ä"),
        ("STRING", "\x7f\n", "%7F%0A", "%7F%0A"),
        ("DATE", -719_529, "-719529", "-0001-12-31"),
        ("DATE", 2_932_897, "2932897", "+10000-01-01"),
        ("TIME(3)", 45_296_789, "45296789", "12:34:56.789"),
        ("TIME(3)", 45_296_100, "45296100", "12:34:56.1"),
        ("TIME(3)", 45_296_000, "45296000", "12:34:56.0"),
        ("TIME(0)", 0, "0", "00:00:00"),
        ("TIMESTAMP(0)", 0, "1970-01-01T00:00", "1970-01-01 00:00:00"),
        ("TIMESTAMP(0)", SECOND, "1970-01-01T00:00:01", "1970-01-01 00:00:01"),
        ("TIMESTAMP(6)", -1_000, "1969-12-31T23:59:59.999999", "1969-12-31 23:59:59.999999"),
        ("TIMESTAMP(6)", 10**8, "1970-01-01T00:00:00.100", "1970-01-01 00:00:00.100000"),
        ("TIMESTAMP(9)", 1, "1970-01-01T00:00:00.000000001", "1970-01-01 00:00:00.000000001"),
        ("DECIMAL(10, 2)", decimal.Decimal("1.5"), "1.50", "1.50"),
        ("DECIMAL(38, 0)", decimal.Decimal("1E+30"), "1" + "0" * 30, "1" + "0" * 30),
        ("BOOLEAN", False, "false", "false"),
        ("FLOAT", 0.10000000149011612, "0.1", "0.1"),
        ("DOUBLE", 0.1, "0.1", "0.1"),
        ("DOUBLE", 1e7, "1.0E7", "1.0E7"),
        ("DOUBLE", 9_999_999.5, "9999999.5", "9999999.5"),
        ("DOUBLE", -0.0, "-0.0", "-0.0"),
        ("DOUBLE", 1.25e-5, "1.25E-5", "1.25E-5"),
        ("DOUBLE", float("inf"), "Infinity", "Infinity"),
        ("DOUBLE", float("-inf"), "-Infinity", "-Infinity"),
        ("DOUBLE", float("nan"), "NaN", "NaN"),
    ],
)
def test_texts_of_values(type_text: str, value: object, legacy: str, modern: str) -> None:
    assert text_of(type_text, value, legacy=True) == legacy
    assert text_of(type_text, value, legacy=False) == modern


def test_several_columns_and_none() -> None:
    columns = row_type(("dt", "STRING"), ("a=b", "INT"))
    path = partition_path(("x/y", 3), columns, default_name=DEFAULT, uses_legacy_names=True)
    assert path == "dt=x%2Fy/a%3Db=3"
    assert partition_path((), row_type(), default_name=DEFAULT, uses_legacy_names=True) == ""


@pytest.mark.parametrize(
    ("type_text", "value", "legacy"),
    [
        pytest.param("BYTES", b"a", True, id="java-prints-an-address"),
        pytest.param("TIMESTAMP_LTZ(3)", 0, False, id="depends-on-the-zone"),
    ],
)
def test_names_that_depend_on_the_machine_are_refused(
    type_text: str, value: object, legacy: bool
) -> None:
    with pytest.raises(UnsupportedTableError, match="'p'") as caught:
        text_of(type_text, value, legacy=legacy)
    assert "to fix" in str(caught.value)


def test_ltz_has_a_legacy_name() -> None:
    assert parse_data_type("TIMESTAMP_LTZ(3)").precision == 3
    assert text_of("TIMESTAMP_LTZ(3)", 0, legacy=True) == "1970-01-01T00:00"
