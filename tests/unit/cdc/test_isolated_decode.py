"""A decoder that fails at some records: these are set aside, all others are decoded."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.column_drift import DriftKind, Sighting
from stream_app.cdc.insert_only import InsertOnly
from stream_app.cdc.isolated_decode import IsolatedDecode
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import SourceError
from tests.unit.cdc.debezium_messages import a_format, event, messages, reasons_of, rows_of

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
    reads_keys: bool = True

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        self.messages_seen += messages.num_rows
        if any(POISON in (value or b"") for value in messages.column("value").to_pylist()):
            self.fail()
        return self.inner.decode(messages)


def insert(key: int, text: str = '"x"') -> str:
    return event(after=f'{{"id":{key},"v":{text}}}')


@pytest.mark.parametrize(
    ("fail", "named"),
    [
        (out_of_memory, "ArrowMemoryError: malloc of size"),
        (recursion, "RecursionError: maximum recursion depth exceeded (recursion, test_"),
        (refused_by_arrow, "ArrowInvalid: Failed to parse string: 'x' as a scalar of type int64"),
        (lambda: 1 // 0, "ZeroDivisionError: integer division or modulo by zero (<lambda>, test_"),
        (lambda: dict[str, int]()["x"], "KeyError: 'x' (<lambda>, test_isolated_decode.py:"),
    ],
)
def test_each_record_at_which_the_decoder_fails_is_set_aside(
    fail: Callable[[], object], named: str
) -> None:
    values = [insert(key) for key in range(1000)]
    poisoned = {0, 1, 500, 999}
    for key in poisoned:
        values[key] = insert(key, POISON.decode())
    values[7] = "{"
    decoder = IsolatedDecode(FailingDecoder(fail))
    batch = messages(*values, None, topic="shop", partition=3)
    decoded = decoder.decode(batch)
    good = [key for key in range(1000) if key not in poisoned | {7}]
    assert rows_of(decoded) == [(key, "+I", key, "x") for key in good]
    assert (decoded.decoder_errors, decoded.skipped) == (4, 1)
    reasons = reasons_of(decoded)
    assert list(reasons) == [0, 1, 7, 500, 999]
    assert reasons.pop(7).startswith("is not JSON")
    for reason in reasons.values():
        assert reason.startswith(f"the decoder failed with {named}")
    bad = decoded.bad.to_pylist()
    assert [(one["topic"], one["partition"]) for one in bad] == [("shop", 3)] * 5
    assert bad[3]["value"] == values[500].encode()


def test_a_batch_of_nothing_else_and_an_empty_one() -> None:
    decoder = IsolatedDecode(FailingDecoder(recursion))
    decoded = decoder.decode(messages(*[insert(1, POISON.decode())] * 3))
    assert (decoded.changes.rows.num_rows, decoded.decoder_errors) == (0, 3)
    assert decoded.changes.rows.schema == a_format().decode(messages()).changes.rows.schema
    assert decoder.decode(messages()).bad.num_rows == 0


def test_a_decoder_that_fails_at_anything_stops_the_job() -> None:
    """Else all of the topic would go to the quarantine for a mistake in the set-up."""

    class Broken:
        reads_keys = True

        def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
            raise KeyError(f"no such column in {messages.num_rows} messages")

    with pytest.raises(KeyError):
        IsolatedDecode(Broken()).decode(messages(insert(1), insert(2)))


def test_what_is_raised_on_purpose_stops_the_job() -> None:
    values = [insert(1, POISON.decode()), event("t")]
    with pytest.raises(SourceError, match="truncated"):
        IsolatedDecode(FailingDecoder(recursion)).decode(messages(*values))


def test_the_last_truncate_is_told_whatever_fails_beside_it() -> None:
    options = {"truncate": "apply"}
    for at in range(5):
        values = [insert(1), event("t"), insert(2), event("t")]
        values.insert(at, insert(3, POISON.decode()))
        told = IsolatedDecode(FailingDecoder(recursion, a_format(options=options))).decode(
            messages(*values)
        )
        assert told.truncated == 3 + (at <= 3)


@pytest.mark.parametrize("poisoned", [1, 16, 256])
@pytest.mark.slow
def test_the_search_is_short(poisoned: int, seed: int) -> None:
    """Each record costs the halves that lead to it, not a decode of the batch."""
    count = 4096
    values = [insert(key) for key in range(count)]
    for key in random.Random(seed).sample(range(count), poisoned):
        values[key] = insert(key, POISON.decode())
    failing = FailingDecoder(recursion)
    assert IsolatedDecode(failing).decode(messages(*values)).decoder_errors == poisoned
    halves = 12  # log2 of 4096
    assert failing.messages_seen <= count * min(2 * poisoned + 1, halves + 1)


def test_errors_are_counted_behind_other_formats_too() -> None:
    failing = IsolatedDecode(FailingDecoder(recursion, a_format(keys=())))
    decoder = InsertOnly(messages=failing, sets_aside=True, ignores_deletes=True)
    row = '{"id":3,"v":"x"}'
    values = [insert(1, POISON.decode()), insert(2), event("d", before=row), event("u", after=row)]
    decoded = decoder.decode(messages(*values))
    assert (decoded.decoder_errors, decoded.skipped) == (1, 1)
    assert list(reasons_of(decoded)) == [0, 3]


def test_columns_are_counted_across_the_halves() -> None:
    """Where the decoder fails, the first record with a column keeps its place in the batch."""
    plain, odd = insert(1), '{"op":"c","after":{"id":2,"w":1}}'
    decoded = IsolatedDecode(FailingDecoder(refused_by_arrow)).decode(
        messages(plain, insert(9, POISON.decode()), plain, odd, plain, odd)
    )
    assert decoded.columns == {
        (DriftKind.UNKNOWN, "w"): Sighting(2, 3),
        (DriftKind.MISSING, "v"): Sighting(2, 3),
    }
