"""Records with a value that no merge can take become bad, and others stay."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.cdc.pipeline import StepPlace
from stream_app.table.pipeline_steps.mergeable_values import mergeable_value_step
from tests.support.jobs.table_writer import read_rows
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of
from tests.support.tables.function_columns import FUNCTION_COLUMNS
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
AGGREGATION = {"merge-engine": "aggregation"}
SETS = [name for name, (kind, *_) in FUNCTION_COLUMNS.items() if kind == "BYTES"]


def event(op: str, **images: dict[str, Any]) -> str:
    return json.dumps({"op": op, "before": None, "after": None, **images})


@pytest.mark.parametrize("function", SETS)
def test_sets_that_cannot_be_united_are_bad_and_the_others_are_read(
    tmp_path: Path, function: str
) -> None:
    options = {**AGGREGATION, "fields.v.aggregate-function": function}
    small = small_table(tmp_path / "t", "k INT, v BYTES", ("k",), **options)
    columns = FUNCTION_COLUMNS[function]
    values = [columns[1], b"no bitmap and no sketch", columns[2], b"\1", None]
    texts = [None if value is None else base64.b64encode(value).decode() for value in values]
    decode = a_format("k INT, v BYTES", ("k",)).with_steps(
        {StepPlace.MERGEABLE_VALUES: mergeable_value_step(small.table.schema)}
    )
    events = [event("c", after={"k": 1, "v": text}) for text in texts]
    decoded_batch = decode.decode(messages(*events, key=None))
    reasons = reasons_of(decoded_batch)
    assert list(reasons) == [1, 3]
    assert f"column 'v': {function} cannot read the value" in reasons[1]
    for row in decoded_batch.changes.rows.to_pylist():
        small.commit(("+I", {"k": 1, "v": row["v"]}))
    small.compact()
    assert len(read_rows(small.table)) == 1


@pytest.mark.parametrize("kind", ["INT", "DECIMAL(9,2)"])
def test_a_zero_cannot_be_taken_back_from_a_product(tmp_path: Path, kind: str) -> None:
    options = {**AGGREGATION, "fields.v.aggregate-function": "product"}
    small = small_table(tmp_path / "t", f"k INT, v {kind}", ("k",), **options)
    decode = a_format(f"k INT, v {kind}", ("k",)).with_steps(
        {StepPlace.MERGEABLE_VALUES: mergeable_value_step(small.table.schema)}
    )
    zero, two = {"k": 1, "v": 0}, {"k": 1, "v": 2}
    events = [event("c", after=zero), event("d", before=zero), event("d", before=two)]
    decoded_batch = decode.decode(messages(*events, key=None))
    assert list(reasons_of(decoded_batch)) == [1]
    assert "takes 0 back from column 'v'" in reasons_of(decoded_batch)[1]
    assert len(rows_of(decoded_batch)) == 2


def test_a_table_without_such_functions_is_left_alone(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v INT", ("k",), **AGGREGATION)
    assert mergeable_value_step(small.table.schema) is None
