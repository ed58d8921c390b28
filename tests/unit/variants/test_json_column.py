"""Machine code makes the VARIANTs of JSON texts that are made one by one."""

from __future__ import annotations

import io
import json
import random
import re
import string
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.data_files.parquet_file_format import ParquetSink
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import parse_columns
from stream_app.variants.json_column import variants_of
from stream_app.variants.json_texts import variant_texts
from stream_app.variants.layout import VARIANT_NESTING_MAX

DOCUMENTS = [
    '{"customer":{"city":"Bonn","name":"Ä \\"B\\""},"id":17,"rate":12.50,"tags":["a","b",null]}',
    "[0,-0,-1,127,128,-128,-129,32767,32768,2147483647,2147483648,-2147483649]",
    "[9223372036854775807,-9223372036854775808,9223372036854775808,-9223372036854775809]",
    "[0.1,-0.0,0.00,1.5,123456789.123456789,1234567890.1,0.0000000001,12345678901234567890.5]",
    "[1e30,-2.5E-7,1e0,99999999999999999999999999999999999999]",
    "[-99999999999999999999999999999999999999,999999999999999999999999999999999999999]",
    f"[0.{'0' * 37}1,0.{'0' * 38}1,{'1' * 38},{'1' * 39}]",
    '"x"', '""', f'"{"y" * 63}"', f'"{"y" * 64}"', "17", "true", "false", "null",
    " {\t} ", "[ ]", "[[]]", "[{},{}]",
    '{"a":{"b":1},"b":{"a":2,"c":[{"a":1,"b":{}}]}}',
    '{"": 1, "\U0001f600": 2, "\uffee": 3, "ä": 4, "a": 5}',
    '{"\\ud83d\\ude00": "\\u00e4\\n\\/", "a\\nb": 3, "a\\tb": {"a\\nb": 4}}',
    json.dumps({f"n{number}": number for number in range(300)}),
    json.dumps(["z" * 250] * 300),
    "[" * VARIANT_NESTING_MAX + "]" * VARIANT_NESTING_MAX,
]  # fmt: skip
BROKEN = [
    "", " ", ",", "{", "[", "]", '"', '"\\', '{"a"', '{"a":', '{"a":}', '{"a":1,}', "[1,", "[1,]",
    "[1}", "tru", "nul", "true false", "[1]]", "01", "1.", ".5", "-", "+1", "NaN", "Infinity", "1e",
    "0x1", "'a'", '{"a":1,"a":2}', '{"b":{"a":1,"c":{"a":2},"a":3}}', '"\\ud800"',
    '{"\\udc00":1}', '"\x01"', "1e400", "[1] 2", "\ufeff1", "[" * 5000,
    "[" * (VARIANT_NESTING_MAX + 2) + "]" * (VARIANT_NESTING_MAX + 2),
]  # fmt: skip


def both_ways(texts: Sequence[str | None]) -> tuple[pa.Array, list[bool]]:
    """The values of machine code, and what failed, after a comparison with the other way."""
    column = pa.array(texts, pa.string())
    quick, slow = (
        variants_of(column, uses_machine_code=is_compiled) for is_compiled in (True, False)
    )
    failure_masks = [
        [False] * len(texts) if mask is None else mask.tolist() for mask in (quick[1], slow[1])
    ]
    for text, value, other, *has_failed in zip(
        texts, quick[0], slow[0], *failure_masks, strict=True
    ):
        assert (value.as_py(), has_failed[0]) == (other.as_py(), has_failed[1]), text
    return quick[0], failure_masks[0]


@pytest.mark.slow
def test_documents_are_what_they_were() -> None:
    values, failure_mask = both_ways([*DOCUMENTS, None])
    assert not any(failure_mask)
    assert values[-1].as_py() is None
    for document, text in zip(DOCUMENTS, variant_texts(values).to_pylist(), strict=False):
        number = float if re.search(r"[0-9]{39}", document) else Decimal  # else a double holds it
        stored_value, original = (
            json.loads(source, parse_int=number, parse_float=number) for source in (text, document)
        )
        assert stored_value == original


def test_a_text_that_is_not_a_document_fails_alone() -> None:
    """The batch has good documents too, of which one has the names of another."""
    texts = [text for broken in BROKEN for text in (broken, DOCUMENTS[0], DOCUMENTS[0])]
    values, failure_mask = both_ways(texts)
    assert failure_mask == [True, False, False] * len(BROKEN)
    assert values.null_count == len(BROKEN)


def a_value(rng: random.Random, level: int = 0) -> Any:
    kind = rng.random()
    if level > 4 or kind < 0.5:
        return rng.choice([
            None, True, False, rng.randint(-5, 5), rng.randint(-(2**70), 2**70), rng.random(),
            rng.random() * 10 ** rng.randint(-30, 30), "s" * rng.randint(0, 90), 'é\n"\\',
        ])  # fmt: skip
    if kind < 0.75:
        return [a_value(rng, level + 1) for _ in range(rng.choice([0, 1, 3, 5]))]
    names = [
        rng.choice(string.ascii_lowercase + "ä€😀\n") + rng.choice(["", "x"]) for _ in range(9)
    ]
    return {name: a_value(rng, level + 1) for name in names[: rng.choice([0, 1, 4, 9])]}


@pytest.mark.slow
def test_random_documents_are_encoded_alike(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        texts = [
            json.dumps(a_value(rng), ensure_ascii=rng.random() < 0.5)
            for _ in range(rng.choice([1, 40]))
        ]
        cut = [
            text if rng.random() < 0.8 else text[: rng.randrange(len(text) + 1)] + '"'
            for text in texts
        ]
        values, failure_mask = both_ways([*cut])
        assert [value.is_valid for value in values] == [
            not has_failed for has_failed in failure_mask
        ]


def test_a_column_is_encoded_in_parts() -> None:
    texts: list[str | None] = [json.dumps({"n": number, "t": "x" * 1000}) for number in range(2500)]
    values, failure_mask = both_ways(texts)
    assert not any(failure_mask)
    assert json.loads(variant_texts(values[2400:2401])[0].as_py())["n"] == 2400
    sliced_values, _ = variants_of(pa.array(texts, pa.string()).slice(7, 3))
    assert sliced_values.equals(values[7:10])


def test_null_documents_of_any_origin_can_be_stored() -> None:
    """A null in Arrow may hide nulls in the two parts, which a file must not have."""
    schema = arrow_schema(parse_columns("doc VARIANT, r ROW<a INT NOT NULL>"))
    documents, _ = variants_of(pa.array(['{"a":1}', None, "2"]))
    rows = pa.array([{"a": 1}, None, {"a": 2}], schema.field("r").type)
    nulls = [pa.nulls(3, field.type) for field in schema]
    taken = [column.take(pa.array([None, 1, 2])) for column in (documents, rows)]
    sink = io.BytesIO()
    writer = ParquetSink(sink, schema, CoreOptions({}))
    for columns in ([documents, rows], nulls, taken):
        writer.write(pa.Table.from_arrays(columns, schema=schema))
        writer.write(pa.Table.from_arrays(columns, schema=schema).slice(1))
    writer.close()
    read = pq.read_table(io.BytesIO(sink.getvalue()))
    assert read.column("doc").null_count == read.column("r").null_count == 2 + 5 + 3
