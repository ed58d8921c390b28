"""The examples in docstrings of functions that parse and print many texts at once are true."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.computed.column_functions import truncate_decimals
from stream_app.cdc.computed.time_functions import instants_of
from stream_app.cdc.debezium.bson.array_texts import arrays_as_texts
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.cdc.json_records.origin_fields import parse_times_ms
from stream_app.cdc.plain.cloud_events import _DATA
from stream_app.cdc.transactions import MessageKind
from stream_app.cdc.wire.event_data import _unwrap_together
from stream_app.format.binary_row_columns import encode_columns, text_words
from stream_app.format.bucket_hash import murmur_hashes
from stream_app.format.casting.from_text import text_to_integer
from stream_app.format.casting.times_from_text import text_to_time
from stream_app.format.casting.to_text import number_to_text
from stream_app.format.row_hash.compiled.text_bytes import _digits_of
from stream_app.model.schema.data_type import DataType, parse_columns


def type_of(text: str) -> DataType:
    return parse_columns(f"a {text}").types[0]


STRING = type_of("STRING")


def test_integers_are_read_as_drawn() -> None:
    values = pa.array(["+007", "-12.9", "-.5", None])
    assert text_to_integer(values, STRING, type_of("INT")).to_pylist() == [7, -12, 0, None]


def test_numbers_are_printed_as_drawn() -> None:
    numbers = pa.array([1e7, -1.5e-5, 1.25e20, float("nan")])
    assert numbers.cast(pa.string()).to_pylist() == ["10000000", "-0.000015", "1.25e+20", "nan"]
    texts = number_to_text(numbers, type_of("DOUBLE"), STRING)
    assert texts.to_pylist() == ["1.0E7", "-1.5E-5", "1.25E20", "NaN"]


def test_digits_are_separated_as_drawn() -> None:
    assert int(_digits_of(np.uint64(12_345_678))) == 0x08_07_06_05_04_03_02_01


def test_times_of_day_are_read_as_drawn() -> None:
    values = pa.array(["5000", "1:2", "1:2:3.4567", "10:30:00+02:15"])
    times = text_to_time(values, STRING, type_of("TIME(3)"))
    assert times.cast(pa.int32()).to_pylist() == [5000, 3720000, 3723457, 45900000]


def test_moments_are_read_as_drawn() -> None:
    texts = ["1970-01-01 00:00:03.210671Z", "1970-01-01T00:01:00", "1970-01-01", None]
    assert parse_times_ms(pa.array(texts)).to_pylist() == [3210, 60000, None, None]
    texts = ["1970-01-02T03:04:05.123456789Z", "1970-1-2 3:04:05", "1970-01-02", "soon"]
    instants = instants_of(pa.array(texts), None)
    assert instants.seconds.tolist() == [97445, 97445, 86400, 0]
    assert instants.nanos.tolist() == [123456789, 0, 0, 0]
    assert instants.has_failed.tolist() == [False, False, False, True]


def test_decimals_are_truncated_and_encoded_as_drawn() -> None:
    texts = ["12.34", "-12.34", "0.10", None]
    values = pa.array([text and Decimal(text) for text in texts], pa.decimal128(6, 2))
    truncated_values, has_failed = truncate_decimals(values, 10)
    texts = ["12.30", "-12.40", "0.10", None]
    assert truncated_values.to_pylist() == [text and Decimal(text) for text in texts]
    assert has_failed is None
    numbers = pa.array([0, 1, -1, 128]).cast(pa.decimal128(20, 0))
    flat, offsets = encode_columns([numbers], [type_of("DECIMAL(20, 0)")])
    assert offsets.tolist() == [0, 32, 64, 96, 128]
    words = flat.view(np.uint64).reshape(4, 4)
    assert (words[:, 1] & 0xFFFFFFFF).tolist() == [1, 1, 1, 2]
    digits = [row[2:].tobytes().hex() for row in words]
    assert digits == [text.ljust(32, "0") for text in ("00", "01", "ff", "0080")]


def test_arrays_become_texts_as_drawn() -> None:
    texts, done = arrays_as_texts(pa.array(['{"t":["a", 1]}']))
    assert texts.to_pylist() == [r'{"t":"[\"a\",1]"}']
    assert done.tolist() == [True]


def test_markers_count_the_changes_of_transactions_as_drawn() -> None:
    messages = [
        {"status": "BEGIN", "id": "1"},
        {"op": "c", "after": {"k": 1}, "transaction": {"id": "1", "total_order": 1}},
        {"status": "END", "id": "1", "data_collections": counts(("s.a", 1), ("s.b", 2))},
        {"status": "END", "id": "2", "data_collections": counts(("s.a", 3))},
    ]
    rows = [
        {"topic": "t", "partition": 0, "offset": index, "value": json.dumps(message).encode()}
        for index, message in enumerate(messages)
    ]
    transactions = debezium_transactions(pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA))
    kinds = [MessageKind.BEGIN, MessageKind.CHANGE, MessageKind.END, MessageKind.END]
    assert transactions.kinds.tolist() == kinds
    assert transactions.end_markers.message_indices.tolist() == [2, 3]
    assert transactions.end_markers.owners.tolist() == [0, 0, 1]
    assert transactions.end_markers.tables.to_pylist() == ["s.a", "s.b", "s.a"]
    assert transactions.end_markers.counts.tolist() == [1, 2, 3]


def counts(*of_tables: tuple[str, int]) -> list[dict[str, object]]:
    return [{"data_collection": table, "event_count": count} for table, count in of_tables]


def test_texts_are_hashed_as_drawn() -> None:
    """The first number is `hash('Spark')` of Spark, whose function is the same."""
    hashes = murmur_hashes(text_words(pa.array(["Spark", "", "kafka io", "abc"])))
    assert hashes.tolist() == [228093765, 142593372, 1548311382, 1322437556]


def test_events_that_are_read_in_columns_as_drawn() -> None:
    values = pa.array(
        [
            b'{"specversion":"1.0","data":{"a":1}}',
            b'{"specversion":"1.0","data":{"a":1},"b":2}',
            b'{"data":{"a":1},"specversion":"1.0"}',
            b'{"specversion":"1.0","data_base64":"eyJhIjoxfQ=="}',
        ]
    )
    indices, messages = _unwrap_together(values, _DATA)
    assert (indices.tolist(), messages.to_pylist()) == ([0], [b'{"a":1}'])
