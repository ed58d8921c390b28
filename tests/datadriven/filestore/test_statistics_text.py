"""Decides by the statistics of a file whether one of its rows may meet a condition, as text.

Each line before ``--`` has the statistics of a column: ``name TYPE least..largest [nulls=N]``, in
the convention of binary_row, or ``name TYPE unknown``. Each line after it is a condition. The
output has one line for each condition: ``may``, or ``no`` if no row can pass.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from stream_app.filestore.data.stats_filter import StatsFilter
from stream_app.format.column_stats import ColumnStats
from stream_app.model.schema.data_type import DataType, RowType, TypeRoot, parse_columns
from stream_app.predicate.parser import parse_predicate
from stream_app.predicate.predicate import column_names, to_expression
from tests.support.suite.datadriven import Case, run_file


def judge(case: Case) -> str:
    place = case.input_lines.index("--")
    lines = [line.split() for line in case.input_lines[:place]]
    columns = parse_columns(", ".join(f"{words[0]} {words[1]}" for words in lines))
    stats = {
        words[0]: _stats(words[2:], column.data_type)
        for words, column in zip(lines, columns, strict=True)
    }
    shown = []
    for text in case.input_lines[place + 1 :]:
        predicate = parse_predicate(text, columns)
        condition = StatsFilter(to_expression(predicate), columns.project(column_names(predicate)))
        (passes,) = condition.may_match([(int(case.args["rows"]), stats)])
        shown.append(f"{'may' if passes else 'no':3} {text}")
    return "\n".join(shown)


def _stats(words: list[str], data_type: DataType) -> ColumnStats:
    low, _, high = words[0].partition("..")
    nulls = next((int(word.removeprefix("nulls=")) for word in words[1:]), None)
    if low == "unknown":
        return ColumnStats(null_count=nulls)
    return ColumnStats(_value(low, data_type), _value(high, data_type), nulls)


def _value(text: str, data_type: DataType) -> object:
    match data_type.root:
        case TypeRoot.VARCHAR | TypeRoot.CHAR:
            return text
        case TypeRoot.DECIMAL:
            return Decimal(text)
        case TypeRoot.DOUBLE | TypeRoot.FLOAT:
            return float(text)
        case TypeRoot.BOOLEAN:
            return text == "true"
        case _:
            return int(text)


def test_statistics_decide_whether_a_row_may_pass() -> None:
    run_file(Path(__file__).with_name("judged.txt"), judge)


def test_columns_outside_of_the_condition_do_not_matter() -> None:
    columns = parse_columns("k INT, v INT")
    expression = to_expression(parse_predicate("k = 1", columns))
    condition = StatsFilter(expression, RowType((columns.fields[0],)))
    two = ColumnStats(2, 2, 0)
    assert condition.may_match([(1, {"v": two}), (1, {}), (1, {"k": two})]) == [True, True, False]
    assert condition.may_match([]) == []
