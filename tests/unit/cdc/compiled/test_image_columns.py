"""Machine code parses images as Arrow's parser does, or not at all, and reads their bytes alone."""

from __future__ import annotations

import base64
import decimal
import random
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.columns.column_cast import cast_column
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, JsonKind
from stream_app.cdc.columns.decimal_columns import narrow_decimals
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from tests.unit.cdc.compiled.guarded_memory import guarded_pages
from tests.unit.cdc.compiled.shop_messages import NUMBERS, OTHERS, TEXTS, message, mutated

pytest.importorskip("numba")
from stream_app.cdc.compiled.image_columns import ImageColumns, ImageLayout

EXACT = decimal.Context(prec=40)
TAIL = b',"source":{},"op":"c"}'
KINDS: tuple[tuple[str, Encoding, JsonKind], ...] = (
    ("BIGINT", Encoding.NUMBER, JsonKind.NUMBER),
    ("STRING", Encoding.TEXT, JsonKind.STRING),
    ("BOOLEAN", Encoding.NUMBER, JsonKind.BOOLEAN),
    ("DOUBLE", Encoding.NUMBER, JsonKind.NUMBER),
    ("FLOAT", Encoding.FLOAT32, JsonKind.NUMBER),
    ("DECIMAL(12,2)", Encoding.NUMBER, JsonKind.NUMBER),
    ("DECIMAL(12,2)", Encoding.TEXT, JsonKind.STRING),
    ("DECIMAL(38,18)", Encoding.NUMBER, JsonKind.NUMBER),
    ("DECIMAL(12,2)", Encoding.BASE64, JsonKind.STRING),
    ("DECIMAL(38,18)", Encoding.TEXT, JsonKind.STRING),
    ("DECIMAL(38,0)", Encoding.NUMBER, JsonKind.NUMBER),
    ("DECIMAL(38,2)", Encoding.BASE64, JsonKind.STRING),
)


def reading(name: str, sql: str, encoding: Encoding) -> ColumnReading:
    [column] = parse_columns(f"`{name}` {sql}")
    return ColumnReading(
        name=name,
        data_type=column.data_type,
        arrow_type=arrow_schema(parse_columns(f"`{name}` {sql}")).field(0).type,
        encoding=encoding,
        scale=column.data_type.scale,
        is_required=False,
        is_key=False,
    )


def layout(
    columns: list[tuple[str, Encoding, JsonKind]],
    order: tuple[str, ...] = (),
    *,
    reads_base64: bool = True,
) -> ImageLayout:
    """Return the layout of columns ``c0``, ``c1``, …"""
    readings = [
        reading(f"c{index}", sql, encoding) for index, (sql, encoding, _) in enumerate(columns)
    ]
    image_layout = ImageLayout.for_columns(
        readings, [kind for *_, kind in columns], order, reads_base64=reads_base64
    )
    assert image_layout is not None
    return image_layout


def parse(image_layout: ImageLayout, *heads: bytes) -> ImageColumns:
    data = np.frombuffer(b"".join(head + TAIL for head in heads), np.uint8)
    lengths = np.array([len(head) for head in heads], np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths + len(TAIL))[:-1]]).astype(np.int64)
    images = image_layout.parse(data, starts, starts + lengths)
    assert images is not None
    return images


def head(after: str, before: str = "null") -> bytes:
    return f'{{"before":{before},"after":{after}'.encode()


@pytest.mark.parametrize("text", [*NUMBERS, *TEXTS, *OTHERS])
def test_a_value_is_what_arrow_parses_or_is_declined(text: str) -> None:
    for sql, encoding, kind in KINDS:
        column = reading("c0", sql, encoding)
        image = f'{{"c0":{text}}}'
        images = parse(layout([(sql, encoding, kind)], reads_base64=False), head(image))
        if not images.is_parsed[0]:
            continue
        expected = parse_objects(
            pa.array([image.encode()]), pa.schema([("c0", column.wire_type(kind))])
        )
        if expected is None:  # too large: told by a later step, not by the parser
            _, has_failed = cast_column(column, kind, images.columns[0])
            assert has_failed is not None, f"{sql} {kind.name} {text}"
            assert has_failed.tolist() == [True]
            continue
        [value] = expected
        if pa.types.is_decimal256(value.type):
            value, _ = narrow_decimals(value, column.arrow_type)
        assert repr(images.columns[0].to_pylist()) == repr(value.to_pylist())
        images.columns[0].validate(full=True)


USUAL: tuple[tuple[int, str, Any], ...] = (
    (0, "-9223372036854775807", -(2**63) + 1),
    (0, "0", 0),
    (1, '"é \\" \\\\ 漢字😀"', 'é " \\ 漢字😀'),
    (1, '""', ""),
    (2, "true", True),
    (2, "false", False),
    (3, "-1.5e-7", -1.5e-7),
    (3, "0.1234567890123456789", 0.1234567890123456789),
    (5, "-1234567890.12", "-1234567890.12"),
    (6, '"0.5"', "0.50"),
    (8, '"AQ=="', "0.01"),
    (8, '"/w=="', "-0.01"),
    (8, '"AIA="', "1.28"),
    (8, '"AQIDBAUG"', "11081521574.46"),
    (1, '"\\u00fc\\u6f22\\ud83d\\ude00\\u0000\\u0022"', 'ü漢😀\0"'),
    (0, " -5\t", -5),
    (7, "-12345678901234567890.123456789012345678", "-12345678901234567890.123456789012345678"),
    (9, '"0.5"', "0.500000000000000000"),
)


@pytest.mark.parametrize(("kind", "text", "value"), USUAL)
def test_usual_values_are_not_declined(kind: int, text: str, value: object) -> None:
    images = parse(layout([KINDS[kind]]), head(f'{{"c0":{text}}}', f'{{"c0":{text}}}'))
    assert images.is_parsed.tolist() == [True]
    [column] = images.columns
    texts = [
        str(value) if pa.types.is_decimal(column.type) else value for value in column.to_pylist()
    ]
    assert texts == [value, value]


def test_wide_decimals_as_numbers_texts_and_bytes(seed: int) -> None:
    rng = random.Random(seed)
    powers = [1, -1, 2**63, -(2**63), 2**64, 2**71, -(2**71), 10**38 - 1, 1 - 10**38]
    values = [0, *powers, *(power + step for power in powers[2:-2] for step in (1, -1))]
    values += [rng.randrange(-(10**size), 10**size) for size in range(1, 39) for _ in range(20)]
    image_layout = layout([KINDS[10], KINDS[9], KINDS[11]])
    for value in values:
        small = value % 10**36 - 10**35
        raw = value.to_bytes((value.bit_length() + 8) // 8 or 1, "big", signed=True)
        if value < 0 and (-value).bit_count() == 1 and value.bit_length() % 8 == 0:
            raw = raw[1:]  # the least number of so many bytes
        text = f"{'-' if small < 0 else ''}{abs(small) // 10**18}.{abs(small) % 10**18:018}"
        image = f'{{"c0":{value},"c1":"{text}","c2":"{base64.b64encode(raw).decode()}"}}'
        images = parse(image_layout, head(image))
        assert images.is_parsed.tolist() == [True], image
        number, fraction, of_bytes = (column[0].as_py() for column in images.columns)
        assert (number, str(fraction), of_bytes.scaleb(2, EXACT)) == (value, text, value)
        longer = base64.b64encode((b"\xff" if value < 0 else b"\0") + raw).decode()
        assert not parse(image_layout, head(f'{{"c2":"{longer}"}}')).is_parsed[0]


def test_fields_in_any_order_or_absent_are_parsed() -> None:
    image_layout = layout([KINDS[0], KINDS[1], KINDS[0]], ("c0", "new", "c1", "c2"))
    images = parse(
        image_layout,
        head('{"c0":1,"c1":"a","c2":3}'),
        head('{"c2":6,"c1":"b","c0":4}', '{"c1":"x"}'),
        head('{"c0":7,"new":{"c1":[1,{}]},"c1":null,"c2":null}'),
        head('{"c0":1,"c0":2,"c1":"a","c2":3}'),
        head("{}"),
        head("null"),
        head('{"c0":7,"other":1,"c1":null,"c2":null}'),
    )
    assert images.is_parsed.tolist() == [True, True, True, False, True, True, True]
    assert images.before_indices.tolist() == [-1, 1, -1, -1, -1, -1, -1]
    assert images.after_indices.tolist() == [0, 2, 3, -1, 4, -1, 5]
    assert [column.to_pylist() for column in images.columns] == [
        [1, None, 4, 7, None, 7],
        ["a", "x", "b", None, None, None],
        [3, None, 6, None, None, None],
    ]
    assert (images.drift_hashes != 0).tolist() == [False, True, True, False, True, False, True]
    assert len(set(images.drift_hashes[[1, 2, 4, 6]].tolist())) == 4


def test_a_broken_row_harms_no_neighbour() -> None:
    image_layout = layout([KINDS[1], KINDS[0]])
    rows = [
        b'{"c0":"a","c1":1}',
        b'{"c1":2}',
        b'{"c0":"unterminated',
        b'{"c0":"b","c1":3',
        b'{"c0":"b","c1":3}}',
        b"",
        b"{}",
        b"{",
        b'{"c0":"c","c1":4} ',
        b'{"c0":"d","c1":12',
    ]
    values = pa.array([b"before", *rows, *rows]).slice(1)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[1:].astype(np.int64)
    images = image_layout.parse_rows(np.frombuffer(values.buffers()[2], np.uint8), offsets)
    assert images is not None
    good = [index in (0, 1, 6, 8) for index in range(len(rows))]
    assert images.is_parsed.tolist() == [*good, *good]
    assert [column.to_pylist() for column in images.columns] == [
        ["a", None, None, "c"] * 2,
        [1, 2, None, 4] * 2,
    ]
    assert np.flatnonzero(images.drift_hashes[:7]).tolist() == [1, 6]


def test_lists_of_objects() -> None:
    row = layout([KINDS[1], KINDS[0]], ("c0", "c1"))
    image_layout = ImageLayout.for_columns(
        (), (), ("rows", "old"), reads_base64=True, lists={"rows": row, "old": row}
    )
    assert image_layout is not None
    values = [
        b'{"rows":[{"c0":"a","c1":1},{"c1":null}],"old":null}',
        b'{"rows":[{"c0":"lost"},{"c0":1}],"old":[{}]}',
        b'{"rows":[{"c0":"lost"},null],"old":[{}]}',
        b'{"old":[{"c1":2},{"new":[{}],"c0":"b"}]}',
        b'{"rows":[],"old":[{"c0":null}],"x":[{}]}',
        b'{"rows":[{"c0":"lost"}],"rows":[]}',
        b'{"rows":{"c0":"lost"}}',
        b'{"rows":[{"c0":"lost"},',
        b'{"rows":[{"c0":"c","c1":4}]}',
    ]
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    images = image_layout.parse_rows(np.frombuffer(b"".join(values), np.uint8), offsets)
    assert images is not None
    good = [index for index, is_parsed in enumerate(images.is_parsed.tolist()) if is_parsed]
    assert good == [0, 3, 4, 8]
    expected = parse_objects(pa.array(values).take(good), pa.schema(list(image_layout.struct)))
    for column, of_arrow in zip(images.columns, expected or (), strict=True):
        column.validate(full=True)
        assert column == of_arrow
    assert [[index.tolist() for index in nulls] for nulls in images.nulls] == [[[], [1]], [[2], []]]
    assert len(set(images.drift_hashes[good].tolist())) == 4


def test_searches_for_names_are_limited() -> None:
    """Without the limit a message of n bytes would cost n times the number of columns."""
    image_layout = layout([KINDS[0]] * 200)
    few, many = ((",".join(f'"u{index}":1' for index in range(count))) for count in (8, 2_000))
    images = parse(image_layout, head(f"{{{few}}}"), head(f"{{{many}}}"))
    assert images.is_parsed.tolist() == [True, False]


def test_too_many_cells_are_declined_before_they_take_memory() -> None:
    image_layout = layout([KINDS[0]] * 1_000)
    places = np.zeros(10_000, np.int64)
    assert image_layout.parse(np.zeros(100, np.uint8), places, places) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("seed", range(4))
def test_no_byte_behind_the_message_is_read(seed: int) -> None:
    """The message ends where memory does: a read beyond ends the process."""
    rng = random.Random(seed)
    image_layout = layout([*KINDS], tuple(f"c{index}" for index in range(9)))
    data, _pages = guarded_pages()
    end = len(data)
    tail = b',"source":{},' + b'"'
    parsed_count = 0
    for index in range(3_000):
        text = message(rng, 0.1).encode()
        text = text[: text.rfind(b',"source":{')]
        for number, name in enumerate(("id", "customer", "flag", "ratio", "single", "amount")):
            text = text.replace(f'"{name}"'.encode(), f'"c{number}"'.encode())
        text = text[: rng.randrange(len(text))] if index % 2 else mutated(text, rng)
        value = np.frombuffer(text + (tail + TAIL)[:16], np.uint8)
        data[end - len(value) :] = value
        start = np.array([end - len(value)], np.int64)
        images = image_layout.parse(data, start, start + len(text))
        assert images is not None
        parsed_count += int(images.is_parsed[0])
    assert parsed_count


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("seed", range(6))
def test_no_byte_behind_whole_messages_is_read(seed: int) -> None:
    """The last message ends where memory does, and what lies behind it changes nothing."""
    rng = random.Random(seed)
    image = layout([*KINDS], tuple(f"c{index}" for index in range(9)))
    image_layout = ImageLayout.for_columns(
        (), (), ("op", "before", "after"), reads_base64=True,
        objects={"before": image, "after": image},
    )  # fmt: skip
    assert image_layout is not None
    data, _pages = guarded_pages()
    parsed_count = 0
    for index in range(600):
        values = []
        for _ in range(rng.choice([1, 2, 7])):
            text = message(rng, 0.1).encode()
            for number, name in enumerate(("id", "customer", "flag", "ratio", "single", "amount")):
                text = text.replace(f'"{name}"'.encode(), f'"c{number}"'.encode())
            values.append(text if rng.random() < 0.6 else mutated(text, rng))
        values[-1] = values[-1][: rng.randrange(len(values[-1]) + 1)] if index % 2 else values[-1]
        joined_bytes = b"".join(values)
        data[len(data) - len(joined_bytes) :] = np.frombuffer(joined_bytes, np.uint8)
        offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
        at_the_end = image_layout.parse_rows(data, offsets + len(data) - len(joined_bytes))
        before_others = image_layout.parse_rows(
            np.frombuffer(joined_bytes + b'1,"x":"y"}' * 9, np.uint8), offsets
        )
        assert at_the_end is not None
        assert before_others is not None
        assert at_the_end.is_parsed.tolist() == before_others.is_parsed.tolist()
        assert list(at_the_end.columns) == list(before_others.columns)
        parsed_count += int(at_the_end.is_parsed.sum())
    assert parsed_count
