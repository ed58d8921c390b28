"""Parses conditions, and compares the rows that they keep, or the error."""

from __future__ import annotations

import datetime
import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.schema.data_type import DataField, RowType, parse_columns
from stream_app.predicate.literal import like_pattern
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import column_names, possible_values, to_expression
from stream_app.predicate.predicate_functions import CONDITION_FUNCTIONS
from stream_app.variants.json_column import variants_of
from stream_app.variants.layout import is_variant
from tests.support.suite.datadriven import Case, files, run_file

ROWS: dict[str, pa.RecordBatch] = {}


def rows(case: Case) -> str:
    """Defines the rows that later cases filter: a line of columns, then JSON arrays."""
    columns = parse_columns(case.input_lines[0])
    values = [json.loads(line) for line in case.input_lines[1:]]
    arrays = [_array([row[place] for row in values], field) for place, field in enumerate(columns)]
    ROWS["rows"] = pa.RecordBatch.from_arrays(arrays, names=list(columns.names))
    ROWS["columns"] = columns
    return f"{len(values)} rows"


def _array(values: list[Any], field: DataField) -> pa.Array:
    kind = arrow_type(field.data_type)
    if pa.types.is_map(kind):
        maps = [None if pairs is None else [tuple(pair) for pair in pairs] for pairs in values]
        return pa.array(maps, kind)
    if is_variant(kind):
        return variants_of(
            pa.array([value and json.dumps(value) for value in values], pa.string())
        )[0]
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_nested(kind):
        return pa.array(values, kind)
    if pa.types.is_time(kind):
        times = [value and datetime.time.fromisoformat(str(value)) for value in values]
        return pa.array(times, kind)
    texts = pa.array([None if value is None else str(value) for value in values], pa.string())
    if pa.types.is_binary(kind):
        contents = [None if value is None else bytes.fromhex(str(value)) for value in values]
        return pa.array(contents, kind)
    return texts.cast(kind)


def where(case: Case) -> str:
    """Each line is a condition: the rows that it keeps, by their first column, and its negation."""
    batch, columns = ROWS["rows"], ROWS["columns"]
    lines = []
    for line in case.input_lines:
        passing, passing_negation = (
            batch.filter(condition(text, columns)).column(0).to_pylist()
            for text in (line, f"NOT ({line})")
        )
        lines.append(f"{line} -> {_numbers(passing)}; NOT -> {_numbers(passing_negation)}")
    return "\n".join(lines)


def _numbers(values: list[int]) -> str:
    return " ".join(map(str, values)) or "none"


def error(case: Case) -> str:
    """Each line is a wrong condition."""
    lines = []
    for line in case.input_lines:
        with pytest.raises(UsageError) as caught:
            condition(line, ROWS["columns"])
        lines.append(f"{caught.value.problem}\n  where: {caught.value.where}")
    return "\n".join(lines)


def bounds(case: Case) -> str:
    """Each line is a condition: its columns, and the values that it lists for each."""
    lines = []
    for line in case.input_lines:
        predicate = parse_predicate(line, ROWS["columns"], CONDITION_FUNCTIONS)
        names = column_names(predicate)
        values = {name: possible_values(predicate, name) for name in names}
        texts = [
            f"{name} {'any' if bounds is None else sorted(map(str, bounds))}"
            for name, bounds in values.items()
        ]
        lines.append(f"{line} -> {'; '.join(texts)}")
    return "\n".join(lines)


def like(case: Case) -> str:
    """Each line is a pattern of LIKE: its regular expression."""
    return "\n".join(f"{line} -> {like_pattern(line)}" for line in case.input_lines)


def handle(case: Case) -> str:
    return {"rows": rows, "where": where, "error": error, "bounds": bounds, "like": like}[
        case.command
    ](case)


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_conditions_pass_rows_or_are_refused(path: Path) -> None:
    run_file(path, handle)


def condition(text: str, row_type: RowType) -> pc.Expression:
    return to_expression(parse_predicate(text, row_type, CONDITION_FUNCTIONS))


@cache
def _columns() -> RowType:
    return parse_columns("n INT, s STRING")


def test_many_parts_overflow_no_stack() -> None:
    batch = pa.record_batch({"n": pa.array([5, 20_000], pa.int32()), "s": ["a", "b"]})
    text = " OR ".join(f"n = {number}" for number in range(1000))
    assert batch.filter(condition(text, _columns())).column(0).to_pylist() == [5]
    assert column_names(parse_predicate(text, _columns())) == ("n",)
    with pytest.raises(UsageError, match="at most 1000"):
        condition(text + " OR n = 1000", _columns())
    members = ", ".join(map(str, range(10_000)))
    assert batch.filter(condition(f"n IN ({members})", _columns())).num_rows == 1


def test_nesting_has_an_end() -> None:
    with pytest.raises(UsageError, match="at most 50"):
        condition("(" * 500 + "n = 1" + ")" * 500, _columns())


def test_conditions_of_one_form_share_their_function() -> None:
    """Arrow never forgets a function, and a page may be asked for many conditions."""
    columns = parse_columns("tags ARRAY<TIMESTAMP(0)>")
    batch = pa.record_batch([pa.array([[1], [2]], pa.list_(pa.timestamp("ms")))], ["tags"])
    before = len(pc.function_registry().list_functions())
    for fraction in range(50):
        text = f"array_contains(tags, TIMESTAMP '1970-01-01 00:00:00.{fraction:04}')"
        assert batch.filter(condition(text, columns)).num_rows == (fraction in (10, 20))
    assert len(pc.function_registry().list_functions()) <= before + 1


def test_line_breaks_are_blanks_but_not_in_texts() -> None:
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int32()), "s": ["a\nb", "a b"]})
    matching = batch.filter(condition("n > 0\n AND s\n=\n'a\nb'", _columns()))
    assert matching.column(0).to_pylist() == [1]
    matching = batch.filter(to_expression(parse_predicate("s LIKE 'a_b'", _columns())))
    assert matching.num_rows == 2
