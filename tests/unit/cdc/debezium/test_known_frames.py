"""Records of which only the images are parsed give the rows that whole parsing gives."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.debezium.decoding.known_frames import KnownFrames, frame_of, known_texts
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    messages,
    reasons_of,
    rows_of,
)

TAIL = (
    ',"source":{"connector":"postgresql","db":"d1","schema":"s","table":"t1","ts_ms":1795232574158,'
    '"sequence":"[\\"22\\",\\"23\\"]","lsn":22327040},"transaction":null,"op":"u","ts_ms":7}'
)
AFTER = '{"id":1,"v":"},\\"after\\":{"}'
RECORD = f'{{"before":{{"id":1,"v":"a"}},"after":{AFTER}{TAIL}'


def whole(value: str) -> str:
    """The same record as it is written nowhere: no frame fits it, so all of it is parsed."""
    return value.replace("{", "{ ", 1)


def outcome(*values: str) -> tuple[dict[int, Any], set[str], int]:
    """Return each message's rows or error, the tables, and the skipped messages."""
    options = {"unproven-keys": "quarantine", "truncate": "ignore"}
    decoded_batch = a_format(options=options).decode(messages(*values))
    assert not decoded_batch.decoder_error_count
    outcomes: dict[int, Any] = dict.fromkeys(reasons_of(decoded_batch), "bad")
    for position, *cells in rows_of(decoded_batch):
        outcomes[position] = (*outcomes.get(position, ()), tuple(cells))
    return outcomes, set(decoded_batch.tables), decoded_batch.skipped_count


@pytest.mark.parametrize(
    "topic",
    [("debezium_pg_plain", "pg.shop.customers"), ("debezium_mariadb_plain", "mdb.shop.customers")],
)
def test_real_messages_have_frames(topic: tuple[str, str]) -> None:
    values = captured_messages(*topic).column("value").drop_null()
    rows = [value for value in values.to_pylist() if b'"before":' in value]
    framed_records = KnownFrames().find_framed(pa.array(rows, pa.binary()))
    assert framed_records is not None
    assert framed_records.indices.tolist() == list(range(len(rows)))
    documents = [json.loads(value) for value in rows]
    images = [
        document[side] for document in documents for side in ("before", "after") if document[side]
    ]
    assert [json.loads(image) for image in framed_records.images.to_pylist()] == images
    assert bytes(framed_records.ops).decode() == "".join(document["op"] for document in documents)
    for name in ("connector", "db", "schema", "table"):
        assert known_texts(framed_records.frames, framed_records.codes, name).to_pylist() == [
            document["source"].get(name) for document in documents
        ]
    assert [json.loads(f"[{both.decode().replace('}{', '},{')}]") for both in
            framed_records.joined_images().to_pylist()] == [
        [document[side] for side in ("before", "after") if document[side]] for document in documents
    ]  # fmt: skip


OTHERS = [
    RECORD.replace("22327040", "99999999"),
    RECORD.replace("22327040", "02327040"),  # no number
    RECORD.replace("22327040", "2232704e"),
    RECORD.replace('"22\\"', '"99\\"'),
    RECORD.replace('"d1"', '"d2"'),
    RECORD.replace('"t1"', '"t2"'),
    RECORD.replace('"postgresql"', '"mysql"'),
    RECORD.replace('"op":"u"', '"op":"c"'),
    RECORD.replace('"op":"u"', '"op":"x"'),
    RECORD.replace('"op":"u"', '"op":"t"'),
    RECORD.replace('"op":"u"', '"op":"U"'),
    RECORD.replace('"op":"u"', '"op":"d"'),
    RECORD.replace('{"id":1,"v":"a"}', "null"),
    RECORD.replace(AFTER, "null"),
    RECORD.replace(AFTER, "null").replace('{"id":1,"v":"a"}', "null"),
    RECORD.replace(AFTER, "{}"),
    RECORD.replace(AFTER, '{"id":1,"v":"x","after":{"id":2}}'),
    RECORD.replace('{"id":1,"v":"a"}', '{"id":1,"v":"a"},"after":{"id":5}'),
    RECORD.replace('{"id":1,"v":"a"}', '{"id":1,"x":{"y":1},"after":{"id":5},"v":"a"}'),
    RECORD.replace('{"id":1,"v":"a"}', '{"id":1}{"id":2}'),
    RECORD.replace('{"id":1,"v":"a"}', '{"id":1}\n{"id":2}'),
    RECORD.replace('{"id":1,"v":"a"}', '{"id":1,"id":2}'),
    RECORD.replace('"v":"a"', '"v":"a\n"'),
    RECORD.replace('"v":"a"}', '"v":"a}').replace('{"id":1,"v":"}', '{","v":"}'),
    RECORD.replace('"id":1,"v":"a"', '"id":1,"zz":NaN'),
    RECORD.replace('"id":1,"v":"a"', '"id":1,"zz":[[1]]'),
    RECORD.replace('"id":1,"v":"a"', '"id":1,"zz":' + "[" * 126 + "]" * 126),
    RECORD.replace('"id":1,"v":"a"', '"id":1,"zz":' + "[" * 127 + "]" * 127),
    RECORD.replace('"before"', '"op":"c","before"'),
    RECORD.replace(',"op"', ',"op":"c","op"'),
    RECORD.replace(',"op"', ',"before":null,"op"'),
    RECORD.replace('"table":"t1"', '"table":"t1","table":"t2"'),
    RECORD.replace('"table":"t1"', '"table":5'),
    RECORD.replace('"lsn":', '"lsn":NaN,"x":'),
    RECORD.replace('"lsn":', '"lsn":"\\ud83d","x":'),
    RECORD.replace(TAIL, '}'),
    "null", "{}", '{"ts_ms":1}',
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(OTHERS)))
def test_a_record_beside_others_with_its_frame(index: int) -> None:
    other = OTHERS[index]
    values = [RECORD, other, RECORD.replace("22327040", "32327041"), other]
    expected = outcome(*map(whole, values))
    assert outcome(*values) == expected
    assert outcome(*values[:1], *map(whole, values[1:])) == expected


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow
def test_a_byte_more_less_or_other_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        changed_record = RECORD
        for _ in range(rng.choice([1, 1, 2])):
            place = rng.randrange(1, len(changed_record))
            byte = rng.choice('{}[]":,\\0129eE-.x \n')
            changed_record = (
                changed_record[:place]
                + rng.choice(["", byte])
                + changed_record[place + rng.randrange(2) :]
            )
        values = [RECORD, changed_record, RECORD, changed_record]
        assert outcome(*values) == outcome(*map(whole, values)), changed_record


def test_frames_are_learnt_and_the_commonest_are_kept() -> None:
    frames = KnownFrames()
    texts = [RECORD.replace("22327040", "9" * digits) for digits in range(1, 19)]
    values = pa.array([text.encode() for text in texts for _ in range(500)], pa.binary())
    for _ in range(3):
        framed_records = frames.find_framed(values)
        assert framed_records is not None
        assert len(framed_records.indices) == len(values)
    assert frames.find_framed(pa.array([whole(RECORD).encode()] * 9, pa.binary())) is None
    framed_part = frames.find_framed(values.slice(3, 1000))  # of a part of a buffer
    assert framed_part is not None
    assert framed_records is not None
    assert framed_part.images.to_pylist() == framed_records.images.slice(6, 2000).to_pylist()


def test_records_without_marked_images() -> None:
    values = pa.array([text.encode() for text in (RECORD, OTHERS[12], RECORD)], pa.binary())
    framed_records = KnownFrames().find_framed(values)
    assert framed_records is not None
    assert framed_records.has_before.tolist() == [True, False, True]
    rest = framed_records.without_images(np.array([False, True, False, False, False]))
    assert rest.indices.tolist() == [1, 2]
    assert rest.images.equals(framed_records.images.slice(2))


@pytest.mark.parametrize(
    "value",
    ["", "{}", "null", TAIL[:-1], RECORD.replace('"u"', "null"), RECORD.replace('"u"', '"m"')],
)
def test_these_messages_have_no_frame(value: str) -> None:
    assert frame_of(value.encode()) is None
