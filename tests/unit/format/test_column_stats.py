"""Manifest statistics from Parquet footers are exact, cut as by Java, or unknown."""

from __future__ import annotations

import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import deserialize_row
from stream_app.format.column_stats import FooterStats, key_stats, value_stats
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.model.files.data_file_meta import EMPTY_STATS
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import RowType
from tests.unit.format.vectors import arrow_column, row_type, vectors

Described = dict[str, tuple[object, object, int | None]]


def footer_of(columns: RowType, *groups: list[list[Any]]) -> pq.FileMetaData:
    """The footer of a file with these row groups, each a list of columns."""
    schema = arrow_schema(columns)
    sink = io.BytesIO()
    with parquet_writer(sink, schema, CoreOptions({})) as writer:
        for group in groups:
            arrays = [
                arrow_column(values, data_type)
                for values, data_type in zip(group, columns.types, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def described_bounds(footer: pq.FileMetaData, columns: RowType, **settings: Any) -> Described:
    """Name → (min, max, null count) of the columns that are not left out."""
    pairs = list(zip(columns.names, columns.types, strict=True))
    stats, names = value_stats(FooterStats(footer), pairs, **settings)
    chosen = columns.names if names is None else names
    types = columns.project(chosen).types
    return dict(
        zip(
            chosen,
            zip(
                deserialize_row(stats.min_values, types),
                deserialize_row(stats.max_values, types),
                stats.null_counts,
                strict=True,
            ),
            strict=True,
        )
    )


def of_one_column(type_text: str, *groups: list[Any], **settings: Any) -> Any:
    columns = row_type(("c", type_text))
    return described_bounds(footer_of(columns, *([group] for group in groups)), columns, **settings)


DECIMAL = decimal.Decimal
MILLI, MICRO = 10**6, 10**3


@pytest.mark.parametrize(
    ("type_text", "values", "expected"),
    [
        ("BOOLEAN", [True, None, False], (False, True, 1)),
        ("TINYINT", [-128, 127], (-128, 127, 0)),
        ("SMALLINT", [-(2**15), 5], (-(2**15), 5, 0)),
        ("INT", [None, 3], (3, 3, 1)),
        ("BIGINT", [-(2**63), 2**63 - 1], (-(2**63), 2**63 - 1, 0)),
        ("FLOAT", [1.5, -2.0], (-2.0, 1.5, 0)),
        ("DOUBLE", [1e300, -1e300], (-1e300, 1e300, 0)),
        ("DECIMAL(9,2)", [DECIMAL("-1.50"), DECIMAL("9999999.99")], None),
        ("DECIMAL(18,3)", [DECIMAL("-999999999999999.999"), DECIMAL("0.001")], None),
        ("DECIMAL(38,10)", [DECIMAL("-9999999999999999999999999999.9999999999"), DECIMAL(0)], None),
        ("DATE", [-(2**31), 2**31 - 1], (-(2**31), 2**31 - 1, 0)),
        ("TIME(3)", [0, 86_399_999], (0, 86_399_999, 0)),
        ("TIMESTAMP(3)", [-(2**63) * MILLI, 5 * MILLI], None),
        ("TIMESTAMP(6)", [-(2**63) * MICRO, (2**63 - 1) * MICRO], None),
        ("TIMESTAMP_LTZ(6)", [-MICRO, 0], None),
        ("STRING", ["b", "a", None], ("a", "b", 1)),
        ("CHAR(3)", ["", "😀"], ("", "😀", 0)),
        ("BYTES", [b"a", None], (None, None, 1)),
        ("INT", [None, None], (None, None, 2)),
        ("STRING", [None], (None, None, 1)),
    ],
)
def test_bounds_are_exact(type_text: str, values: list[Any], expected: Any) -> None:
    bounds = expected or (min(values), max(values), 0)
    assert of_one_column(type_text, values) == {"c": bounds}


@pytest.mark.parametrize("case", vectors()["stats_truncate16"], ids=lambda case: case["value"])
def test_long_texts_are_cut_as_by_java(case: dict[str, str]) -> None:
    assert of_one_column("STRING", [case["value"]]) == {"c": (case["min"], case["max"], 0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("ab\U0010ffffx", "ac", id="carry"),
        pytest.param("a\ud7ff!".replace("!", "xx"), "a\ue000", id="over-the-surrogates"),
    ],
)
def test_maximum_is_raised_by_one_code_point(text: str, expected: str) -> None:
    length = 3 if "ac" in expected else 2
    assert of_one_column("STRING", [text], mode=f"truncate({length})")["c"][1] == expected


def test_no_bounds_when_the_maximum_cannot_be_raised() -> None:
    stats = of_one_column("STRING", ["\U0010ffff" * 3, None], mode="truncate(2)")
    assert stats == {"c": (None, None, 1)}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("none", {}, id="none"),
        pytest.param("counts", {"c": (None, None, 1)}, id="counts"),
        pytest.param("TRUNCATE(2)", {"c": ("lo", "lp", 1)}, id="truncate"),
        pytest.param("full", {"c": ("long text " * 9, "long text " * 9, 1)}, id="full"),
    ],
)
def test_the_mode_limits_the_stats_of_a_column(mode: str, expected: Described) -> None:
    assert of_one_column("STRING", ["long text " * 9, None], mode=mode) == expected


@pytest.mark.parametrize("mode", ["some", "truncate(0)", "truncate", ""])
def test_unknown_mode_is_refused(mode: str) -> None:
    with pytest.raises(UsageError, match=r"metadata\.stats-mode") as caught:
        of_one_column("INT", [1], mode=mode)
    assert "truncate(n)" in str(caught.value)


def test_row_groups_are_merged() -> None:
    assert of_one_column("INT", [5, None], [None, None], [-3, 9]) == {"c": (-3, 9, 3)}


def test_a_text_too_long_for_the_footer_leaves_all_bounds_unknown() -> None:
    """Parquet keeps no bounds above 4 KB; those of the other row groups would be too narrow."""
    assert of_one_column("STRING", ["a"], ["x" * 5_000, None]) == {"c": (None, None, 1)}


def test_skipped_columns_have_no_bounds() -> None:
    assert of_one_column("DOUBLE", [1.0, float("nan")], without_bounds={"c"}) == {
        "c": (None, None, 0)
    }


def test_zeros_of_both_signs_are_within_the_bounds() -> None:
    low, high, _ = of_one_column("DOUBLE", [0.0])["c"]
    assert (str(low), str(high)) == ("-0.0", "0.0")


def test_columns_without_statistics_are_left_out() -> None:
    """pyarrow keeps none of INT96, as which a TIMESTAMP(9) is stored."""
    columns = row_type(("a", "INT"), ("b", "TIMESTAMP(9)"), ("c", "TIMESTAMP(3)"), ("d", "INT"))
    footer = footer_of(columns, [[1], [5], [MILLI], [2]])
    pairs = list(zip(columns.names, columns.types, strict=True))
    stats, names = value_stats(FooterStats(footer), [*pairs, ("absent", columns.types[0])])
    assert names == ("a", "c", "d")
    assert stats.null_counts == (0, 0, 0)
    expected = {"a": (1, 1, 0), "c": (MILLI, MILLI, 0), "d": (2, 2, 0)}
    assert described_bounds(footer, columns) == expected


def test_nothing_left_out_is_none() -> None:
    columns = row_type(("a", "INT"))
    pairs = [("a", columns.types[0])]
    assert value_stats(FooterStats(footer_of(columns, [[1]])), pairs)[1] is None
    assert value_stats(FooterStats(footer_of(columns, [[1]])), pairs, mode="none") == (
        EMPTY_STATS,
        (),
    )


def test_key_statistics_have_all_columns() -> None:
    columns = row_type(("_KEY_a", "STRING NOT NULL"), ("_KEY_b", "TIMESTAMP(9) NOT NULL"))
    footer = footer_of(columns, [["x" * 200, "y"], [1, 2]])
    stats = key_stats(FooterStats(footer), list(zip(columns.names, columns.types, strict=True)))
    assert deserialize_row(stats.min_values, columns.types) == ("x" * 128, None)
    assert deserialize_row(stats.max_values, columns.types) == ("y", None)
    assert stats.null_counts == (0, 0)


def test_timestamps_in_another_unit_have_no_bounds() -> None:
    """Nanoseconds where the type says INT96: not one of our files."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array([1], pa.timestamp("ns"))}), sink)
    columns = row_type(("c", "TIMESTAMP(9)"))
    footer = pq.read_metadata(io.BytesIO(sink.getvalue()))
    assert described_bounds(footer, columns) == {"c": (None, None, 0)}
