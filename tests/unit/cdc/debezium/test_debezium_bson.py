"""debezium-bson decodes documents of MongoDB from Debezium to rows as Paimon stores them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.debezium.bson.extended_json import java_double
from stream_app.cdc.debezium.bson.plain_documents import plain_document, plain_documents
from stream_app.cdc.debezium.bson.plain_messages import plain_messages
from stream_app.cdc.debezium.bson.typed_values import TypedColumn, is_unusual_document
from stream_app.message_format_registry import make_source_extractor
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.mapping_options import (
    NO_MAPPING_OPTIONS,
    JsonColumns,
    parse_mapping_options,
)
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

ID = '{"$oid": "67ab25755c0d5ac87eb8c632"}'
UUID = "b84dbfe2-fe4c-4953-a225-990ea3700f29"
HEX = "67ab25755c0d5ac87eb8c632"
KEY = json.dumps({"id": ID})
COLUMNS = "_id STRING, name STRING, n STRING, doc STRING"
# A value of extended JSON, and the text that Paimon stores of it; None: null.
VALUES = [
    ('"Sally"', "Sally"),
    ("25", "25"),
    ("1735934393769", "1735934393769"),
    ("31.2304", "31.2304"),
    ('{"$numberLong": "1735934393769"}', "1735934393769"),
    ('{"$numberInt": "-5"}', "-5"),
    ('{"$numberLong": "-0"}', "0"),
    ('{"$numberLong": "-9223372036854775808"}', "-9223372036854775808"),
    ('{"$date": -0}', "0"),
    ('{"$date": 1735934393769}', "1735934393769"),
    ('{"$date": {"$numberLong": "1735934393769"}}', "1735934393769"),
    ('{"$date": "2025-01-03T19:59:53.769Z"}', "1735934393769"),
    ('{"$timestamp": {"t": 1736997330, "i": 2}}', "1736997330"),
    ('{"$numberDouble": "NaN"}', "NaN"),
    ('{"$numberDouble": "-Infinity"}', "-Infinity"),
    ('{"$numberDouble": "0"}', "0.0"),
    ('{"$numberDouble": "1e10"}', "1.0E10"),
    ("true", "true"),
    ('["a", "b", "c"]', '["a","b","c"]'),
    ('["1", 2, {"$numberLong": "1735934393769"}]', '["1",2,1735934393769]'),
    ('{"$numberDecimal": "3.14"}', "3.14"),
    ('{"$numberDecimal": "3.10"}', "3.10"),
    ('{"$numberDecimal": "NaN"}', "NaN"),
    ('{"$regularExpression": {"pattern": "^pass$", "options": "i"}}', "/^pass$/i"),
    ('{"$regex": "a/b", "$options": ""}', r"/a\/b/"),
    ('{"$symbol": "symbol"}', "symbol"),
    ('{"$minKey": 1}', "BsonMinKey"),
    ('{"$maxKey": 1}', "BsonMaxKey"),
    ('{"$code": "function(){}"}', "function(){}"),
    ("null", None),
    ('{"$undefined": true}', None),
    ('{"$binary": "uE2/4v5MSVOiJZkOo3APKQ==", "$type": "0"}', "uE2/4v5MSVOiJZkOo3APKQ=="),
    ('{"$binary": "uE2/4v5MSVOiJZkOo3APKQ==", "$type": "4"}', UUID),
    (
        '{"$binary": {"base64": "uE2/4v5MSVOiJZkOo3APKQ==", "subType": "04"}}',
        UUID,
    ),
    (
        '{"city": "Shanghai", "at": {"lat": 31.2304, "lon": {"$numberDouble": "121.4737"}},'
        ' "end": {"$numberLong": "17"}, "args": [1, 2], "nan": {"$numberDouble": "NaN"}}',
        '{"city":"Shanghai","at":{"lat":31.2304,"lon":121.4737},"end":17,"args":[1,2],"nan":"NaN"}',
    ),
    (f'{{"$ref": "books", "$id": {ID}}}', f'{{"$ref":"books","$id":"{HEX}"}}'),
    (r'"a {\"$oid\": \"67ab25755c0d5ac87eb8c632\"} b"', f'a {{"$oid": "{HEX}"}} b'),
    ('"$5"', "$5"),
    ("3.10", "3.10"),
    ("-1.0E10", "-1.0E10"),
    ("1e-7", "1e-7"),
    (r'"b\": 1.50, \" : 2.50}"', 'b": 1.50, " : 2.50}'),
    ("{}", "{}"),
]  # fmt: skip


def message(op: str, after: str | None, before: str | None = None, **source: Any) -> str:
    origin = {"connector": "mongodb", "db": "shop", "collection": "users", "ts_ms": 17, **source}
    document = {"before": before, "after": after, "updateDescription": None, "source": origin}
    return json.dumps({**document, "op": op, "ts_ms": 18, "transaction": None})


def batch(values: Sequence[str | None], keys: Sequence[str | None]) -> pa.RecordBatch:
    rows = [
        {
            "topic": "t", "partition": 0, "offset": index,
            "key": None if key is None else key.encode(),
            "value": None if value is None else value.encode(),
        }
        for index, (value, key) in enumerate(zip(values, keys, strict=True))
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def document(**values: str) -> str:
    return (
        f'{{"_id": {ID}, ' + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"
    )


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_values_are_those_that_paimon_stores(value: str, expected: str | None) -> None:
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",))
    decoded_batch = decode.decode(batch([message("c", document(doc=value))] * 2, [KEY] * 2))
    assert reasons_of(decoded_batch) == {}
    assert [row[2:] for row in rows_of(decoded_batch)] == [(HEX, None, None, expected)] * 2


@pytest.mark.parametrize("value", [value for value, _ in VALUES])
def test_a_column_of_documents_is_rewritten_as_one_document_is(value: str) -> None:
    text = document(doc=value, n="1")
    plain, odd = plain_documents(pa.array([text, None]))
    if not odd[0]:
        assert plain[0].as_py().replace(" ", "") == plain_document(text).replace(" ", "")
    assert plain[1].as_py() is None


@pytest.mark.parametrize(
    "kind", ["TIMESTAMP(6)", "DATE", "TIME", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "BOOLEAN"]
)
def test_texts_in_columns_of_other_types_are_rewritten_together(kind: str) -> None:
    [column] = parse_columns(f"n {kind}")
    texts = [
        document(n=value) for value in ('"2024-02-29"', '"1e3"', '"a \\" \\u00e9"', '""', "null")
    ]
    for encoding in (Encoding.NUMBER, Encoding.EPOCH_MILLIS, Encoding.ISO):
        columns = {"n": TypedColumn("n", column.data_type, encoding)}
        assert not is_unusual_document(pa.array(texts), columns).any()
        plain, odd = plain_documents(pa.array(texts), columns)
        assert not odd.any()
        for result, text in zip(plain.to_pylist(), texts, strict=True):
            assert json.loads(result) == json.loads(plain_document(text, columns))


def test_changes_of_documents() -> None:
    row, other = document(name='"Ada"'), document(name='"Bob"')
    values = [
        message("r", row), message("u", other), message("u", row, other), message("d", None),
        message("d", None, row), message("c", row),
    ]  # fmt: skip
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",))
    decoded_batch = decode.decode(batch([*values, None], [KEY] * 7))
    assert reasons_of(decoded_batch) == {}
    assert [row[:4] for row in rows_of(decoded_batch)] == [
        (0, "+I", HEX, "Ada"),
        (1, "+U", HEX, "Bob"),
        (2, "-U", HEX, "Bob"),
        (2, "+U", HEX, "Ada"),
        (3, "-D", HEX, None),
        (4, "-D", HEX, "Ada"),
        (5, "+I", HEX, "Ada"),
    ]
    assert decoded_batch.skipped_count == 1
    assert set(decoded_batch.tables) == {"shop.users"}


def test_keys_of_other_kinds_and_in_envelopes() -> None:
    ids = ['"abc"', "7", '{"$numberLong": "7"}', '{"a": 1}', '{"$binary": "AA==", "$type": "0"}']
    keys = [json.dumps({"id": key_id}) for key_id in ids]
    wrapped_key = json.dumps(
        {"schema": {"type": "struct"}, "payload": {"id": '"abc"'}}, separators=(",", ":")
    )
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",))
    decoded_batch = decode.decode(batch([message("d", None)] * 6, [*keys, wrapped_key]))
    assert reasons_of(decoded_batch) == {}
    assert [row[2] for row in rows_of(decoded_batch)] == ["abc", "7", "7", '{"a":1}', "AA==", "abc"]


def test_what_cannot_be_read_is_bad_and_harms_no_other() -> None:
    good = message("c", document(name='"x"'))
    odd = {
        "no json": "is not JSON",
        message("c", "no json"): "has in 'after' a text that is not JSON",
        message("c", "[1]"): "has in 'after' a text that is not a document",
        message("c", '{"_id": {"$oid": 5}}'): 'a text that has the value {"$oid":5}, which does',
        message("c", '{"_id": 1}, "op": "d", "x": {}'): "has in 'after' a text that is not JSON",
        message("c", document(n='{"$numberLong": "x"}')): "which does not fit its type",
        message("c", document(n='{"$numberDouble": "1e400"}')): "which does not fit its type",
        message("c", document(n='{"$numberDouble": "1_0"}')): "which does not fit its type",
        message("c", document(n='{"$numberDecimal": "1_0"}')): "which does not fit its type",
        message("c", document(n='{"$numberInt": " 5"}')): "which does not fit its type",
        message("c", document(n=f'{{"$date": {2**63}}}')): "which does not fit its type",
        message("c", document(n=f'{{"$numberLong": "{"9" * 5000}"}}')): "does not fit its type",
        message("c", None): "has op 'c' and no 'after'",
        message("c", document(name='"y"'))[:-1] + ', "z": -Infinity}': "a bare -Infinity is no",
        message("x", document()[:-3] + "}"): "has the unknown op 'x'",
        message("c", document(n="1, \"n\": 2")): "has the field 'n' twice",
        "[1]": "is a JSON array, not an object",
    }  # fmt: skip
    values = [value for message in odd for value in (good, message, good)]
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",))
    decoded_batch = decode.decode(batch(values, [KEY] * len(values)))
    reasons = reasons_of(decoded_batch)
    assert len(reasons) == len(odd)
    for index, expected in zip(range(1, len(values), 3), odd.values(), strict=True):
        assert expected in reasons[index]
    assert len(rows_of(decoded_batch)) == 2 * len(odd)
    assert decoded_batch.bad_records["value"][0].as_py() == b"no json"
    bare = decode.decode(batch([message("d", None)] * 2, [None, '{"other":1}']))
    assert "its key has no 'id'" in reasons_of(bare)[0]
    assert len(reasons_of(bare)) == 2


def test_a_bare_constant_is_bad_without_neighbours_too() -> None:
    """Arrow's parser takes it in a field that nobody reads."""
    value = message("c", document(name='"y"'))[:-1] + ', "z": -Infinity}'
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",), options={"decoder": "arrays"})
    assert "a bare -Infinity is no" in reasons_of(decode.decode(batch([value], [KEY])))[0]


def test_a_field_that_is_not_a_column_may_stand_twice() -> None:
    """However the document is read: a document within another is converted alone."""
    values = [
        message("c", document(n=n, zz='1, "zz": {"$numberLong": "2"}'))
        for n in ("1", '{"a": 1}', "1")
    ]
    decode = a_format(COLUMNS, name="debezium-bson", keys=("_id",))
    decoded_batch = decode.decode(batch(values, [KEY] * 3))
    assert reasons_of(decoded_batch) == {}
    assert [row[4] for row in rows_of(decoded_batch)] == ["1", '{"a":1}', "1"]


def test_messages_describe_their_source() -> None:
    source_extractor = make_source_extractor("debezium-bson", {})
    heartbeat = '{"ts_ms":1}'
    marker = '{"status":"END","id":"1","event_count":1,"data_collections":[],"ts_ms":1}'
    wrapped_message = f'{{"schema":{{"type":"struct"}},"payload":{message("d", None)}}}'
    messages = batch(
        [message("c", document(name='"x"', n="1")), heartbeat, marker, None, wrapped_message, "{"],
        [KEY] * 6,
    )
    origins = source_extractor.find_origins(messages)
    assert origins.codes.tolist() == [0, -1, -1, -1, 0, -1]
    assert [str(name) for name in origins.tables] == ["shop.users"]
    assert set(origins.unassigned_reasons) == {5}
    table = source_extractor.describe(messages, NO_MAPPING_OPTIONS)
    assert table is not None
    assert [f"{column.name} {column.data_type}" for column in table.columns] == [
        "_id STRING NOT NULL", "name STRING", "n STRING"
    ]  # fmt: skip
    assert table.primary_keys == ("_id",)
    mapping = parse_mapping_options([], json_columns=JsonColumns.VARIANT)
    nested_messages = batch([message("c", document(name="{}", n="[1]", t='"[]"'))], [KEY])
    table = source_extractor.describe(nested_messages, mapping)
    assert table is not None
    assert [f"{column.name} {column.data_type}" for column in table.columns[1:]] == [
        "name VARIANT", "n VARIANT", "t STRING"
    ]  # fmt: skip
    assert source_extractor.find_change_times is not None
    times = source_extractor.find_change_times(messages).cast(pa.int64()).to_pylist()
    assert times[0] == times[4] == 17


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.slow
def test_random_documents_are_rewritten_together_as_alone(seed: int) -> None:
    rng = random.Random(seed)
    texts = [value for value, _ in VALUES]
    values: list[str | None] = []
    for _ in range(60):
        first, second = (document(doc=rng.choice(texts), n=rng.choice(texts)) for _ in range(2))
        values.append(
            rng.choice(
                [message("c", first), message("u", first, second), message("d", None), None,
                 message("c", first, collection='q"\\'), message("c", first, db=None),
                 '{"ts_ms":1}']
            )
        )  # fmt: skip
    keys = [rng.choice([KEY, None]) for _ in values]
    together = plain_messages(batch(values, keys))
    for index, (value, key) in enumerate(zip(values, keys, strict=True)):
        alone = plain_messages(batch([value], [key]))
        assert (index in together.unreadable_reasons) == bool(alone.unreadable_reasons)
        shown, expected = together.values[index].as_py(), alone.values[0].as_py()
        assert (shown and json.loads(shown)) == (expected and json.loads(expected))


def test_the_text_of_a_double() -> None:
    shown = [0.0, -0.0, 1.0, 0.001, 0.0001, 1e7, 9999999.0, 1.5e-10, 123456.789, -2e300]
    assert [java_double(number) for number in shown] == [
        "0.0", "-0.0", "1.0", "0.001", "1.0E-4", "1.0E7", "9999999.0", "1.5E-10", "123456.789",
        "-2.0E300",
    ]  # fmt: skip


def test_a_document_that_is_not_json_is_unreadable() -> None:
    with pytest.raises(UnreadableRecordError, match="is not JSON"):
        plain_document('{"a": }')
