"""A record at which the decoder fails is quarantined, and all others are decoded."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.column_drift import DriftKind, Sighting
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import Pipeline, StepPlace
from stream_app.cdc.pipeline_steps.insert_only_step import InsertOnlyStep
from stream_app.errors import SourceError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.source_table import SourceColumn, SourceTable
from tests.support.messages.debezium_messages import a_format, event, messages, reasons_of, rows_of

POISON = b'"poison"'


def out_of_memory() -> None:
    pa.default_memory_pool()
    pa.allocate_buffer(2**62)


def recursion() -> None:
    recursion()


def refused_by_arrow() -> None:
    pa.array(["x"]).cast(pa.int64())


@dataclass
class FailingDecoder:
    """A real decoder that fails at a batch with a poisoned record; counts what it was given."""

    fail: Callable[[], object]
    inner: MessageFormat = field(default_factory=a_format)
    messages_seen: int = 0

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        self.messages_seen += messages.num_rows
        if any(POISON in (value or b"") for value in messages.column("value").to_pylist()):
            self.fail()
        return self.inner.decode(messages)


def insert(key: int, text: str = '"x"') -> str:
    return event(after=f'{{"id":{key},"v":{text}}}')


@pytest.mark.parametrize(
    ("fail", "problem"),
    [
        (out_of_memory, "ArrowMemoryError: malloc of size"),
        (recursion, "RecursionError: maximum recursion depth exceeded (recursion, test_"),
        (refused_by_arrow, "ArrowInvalid: Failed to parse string: 'x' as a scalar of type int64"),
        (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero (<lambda>, test_"),
        (lambda: dict[str, int]()["x"], "KeyError: 'x' (<lambda>, test_pipeline.py:"),
    ],
)
def test_each_record_at_which_the_decoder_fails_is_quarantined(
    fail: Callable[[], object], problem: str
) -> None:
    values = [insert(key) for key in range(1000)]
    poisoned_keys = {0, 1, 500, 999}
    for key in poisoned_keys:
        values[key] = insert(key, POISON.decode())
    values[7] = "{"
    decoder = Pipeline(FailingDecoder(fail))
    batch = messages(*values, None, topic="shop", partition=3)
    decoded_batch = decoder.decode(batch)
    good = [key for key in range(1000) if key not in poisoned_keys | {7}]
    assert rows_of(decoded_batch) == [(key, "+I", key, "x") for key in good]
    assert (decoded_batch.decoder_error_count, decoded_batch.skipped_count) == (4, 1)
    reasons = reasons_of(decoded_batch)
    assert list(reasons) == [0, 1, 7, 500, 999]
    assert reasons.pop(7).startswith("is not JSON")
    for reason in reasons.values():
        assert reason.startswith(f"the decoder failed with {problem}")
    bad_records = decoded_batch.bad_records.to_pylist()
    assert [(record["topic"], record["partition"]) for record in bad_records] == [("shop", 3)] * 5
    assert bad_records[3]["value"] == values[500].encode()


def test_a_batch_of_bad_records_and_an_empty_batch_give_no_rows() -> None:
    decoder = Pipeline(FailingDecoder(recursion))
    decoded_batch = decoder.decode(messages(*[insert(1, POISON.decode())] * 3))
    assert (decoded_batch.changes.rows.num_rows, decoded_batch.decoder_error_count) == (0, 3)
    assert decoded_batch.changes.rows.schema == a_format().decode(messages()).changes.rows.schema
    assert decoder.decode(messages()).bad_records.num_rows == 0


def test_a_decoder_that_fails_at_anything_stops_the_job() -> None:
    """Without the stop a wrong set-up would send the whole topic to the quarantine."""

    class Broken:
        def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
            raise KeyError(f"no such column in {messages.num_rows} messages")

    with pytest.raises(KeyError):
        Pipeline(Broken()).decode(messages(insert(1), insert(2)))


def test_a_decoders_deliberate_error_stops_the_job() -> None:
    values = [insert(1, POISON.decode()), event("t")]
    with pytest.raises(SourceError, match="truncated"):
        Pipeline(FailingDecoder(recursion)).decode(messages(*values))


def test_the_last_truncate_is_kept_whatever_fails_beside_it() -> None:
    options = {"truncate": "apply"}
    for index in range(5):
        values = [insert(1), event("t"), insert(2), event("t")]
        values.insert(index, insert(3, POISON.decode()))
        decoded_batch = Pipeline(FailingDecoder(recursion, a_format(options=options))).decode(
            messages(*values)
        )
        assert decoded_batch.last_truncate == 3 + (index <= 3)


@pytest.mark.parametrize("poisoned_count", [1, 16, 256])
@pytest.mark.slow
def test_bad_records_are_found_by_few_decodes(poisoned_count: int, seed: int) -> None:
    """Each record costs the halves that lead to it, not a decode of the batch."""
    count = 4096
    values = [insert(key) for key in range(count)]
    for key in random.Random(seed).sample(range(count), poisoned_count):
        values[key] = insert(key, POISON.decode())
    failing = FailingDecoder(recursion)
    assert Pipeline(failing).decode(messages(*values)).decoder_error_count == poisoned_count
    halves = 12  # log2 of 4096
    assert failing.messages_seen <= count * min(2 * poisoned_count + 1, halves + 1)


def test_errors_are_counted_behind_other_formats_too() -> None:
    failing = FailingDecoder(recursion, a_format(keys=()))
    last = InsertOnlyStep(quarantines_non_inserts=True, ignores_deletes=True)
    decoder = Pipeline(failing, {StepPlace.INSERTS_ONLY: last})
    row = '{"id":3,"v":"x"}'
    values = [insert(1, POISON.decode()), insert(2), event("d", before=row), event("u", after=row)]
    decoded_batch = decoder.decode(messages(*values))
    assert (decoded_batch.decoder_error_count, decoded_batch.skipped_count) == (1, 1)
    assert list(reasons_of(decoded_batch)) == [0, 3]


def test_columns_are_counted_across_the_halves() -> None:
    """If the decoder fails, the first record with a column keeps its place in the batch."""
    plain, odd = insert(1), '{"op":"c","after":{"id":2,"w":1}}'
    decoded_batch = Pipeline(FailingDecoder(refused_by_arrow)).decode(
        messages(plain, insert(9, POISON.decode()), plain, odd, plain, odd)
    )
    assert decoded_batch.drift == {
        (DriftKind.UNKNOWN, "w"): Sighting(2, 3),
        (DriftKind.MISSING, "v"): Sighting(2, 3),
    }


def failing_step(decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
    if any(POISON in value for value in messages.column("value").to_pylist()):
        recursion()
    return decoded_batch


def telling_step(decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
    """Tells a column for each message, named by its key."""
    keys = [row[2] for row in rows_of(decoded_batch)]
    kind = parse_columns("c INT").fields[0].data_type
    columns = [SourceColumn(name=f"c{key}", data_type=kind) for key in keys]
    return (
        replace(decoded_batch, description=SourceTable(columns=tuple(columns)))
        if columns
        else decoded_batch
    )


def test_a_record_at_which_a_step_fails_is_quarantined_alone() -> None:
    values = [insert(key) for key in range(100)]
    values[40] = insert(40, POISON.decode())
    decoded_batch = (
        a_format().with_steps({StepPlace.INSERTS_ONLY: failing_step}).decode(messages(*values))
    )
    assert (decoded_batch.decoder_error_count, len(rows_of(decoded_batch))) == (1, 99)
    assert reasons_of(decoded_batch)[40].startswith("the decoder failed with RecursionError")


def test_the_columns_of_records_beside_a_failing_one_are_kept() -> None:
    steps = {StepPlace.DESCRIBED_COLUMNS: telling_step, StepPlace.INSERTS_ONLY: failing_step}
    values = [insert(1), insert(2, POISON.decode()), insert(3)]
    decoded_batch = a_format().with_steps(steps).decode(messages(*values))
    assert decoded_batch.description is not None
    assert [column.name for column in decoded_batch.description.columns] == ["c1", "c3"]


def test_steps_run_in_the_order_of_their_places() -> None:
    places = list(StepPlace)
    random.Random(3).shuffle(places)
    pipeline = a_format()
    for place in places:
        pipeline = pipeline.with_steps({place: failing_step})
    assert list(pipeline.steps) == list(StepPlace)
    assert pipeline.with_steps({StepPlace.DEFAULTS: None}) == pipeline
