"""Many JSON objects → Arrow columns in one parse, or nothing at all.

Called by `debezium_json` for records that look alike. `pyarrow.json` reads numbers from their
text, so integers and decimals lose nothing; it is all or nothing, so what it refuses goes to
`record_reader`.

Guards against what the parser accepts (each tested): a top-level ``null`` crashes it, several
objects in one value would shift all rows after them, and bytes that are no UTF-8 become strings.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from stream_app.cdc.arrow_buffers import Bools, bytes_of, lengths_of, offsets_of

_BLOCK_BYTES_MAX = 2**31 - 64


def looks_like_object(values: pa.Array) -> Bools:
    """Where a value begins with ``{`` and ends with ``}``: what `parse_objects` may be given.

    With that, neither can a value hold no object, nor two values together form one: after a
    ``}`` the grammar wants a comma before the next ``{``, and a newline cannot be in a string.
    """
    offsets, data = offsets_of(values), bytes_of(values)
    long_enough: Bools = lengths_of(values) >= 2
    if not long_enough.all():
        found = long_enough.copy()
        found[long_enough] = (data[offsets[:-1][long_enough]] == ord("{")) & (
            data[offsets[1:][long_enough] - 1] == ord("}")
        )
        return found
    first: Bools = data[offsets[:-1]] == ord("{")
    first &= data[offsets[1:] - 1] == ord("}")
    return first


def parse_objects(values: pa.Array, schema: pa.Schema) -> list[pa.Array] | None:
    """Parse one object a value; fields that `schema` does not name are ignored.

    Args:
        values: binary without nulls, each `looks_like_object`.

    Returns:
        A column for each field of `schema`, null where the object has null or no such field;
        None when any value is no JSON, not UTF-8, not of these types, or has a field twice.
    """
    try:
        values.cast(pa.string())  # checks UTF-8, copies nothing
        lines = pc.binary_join_element_wise(values, b"\n", b"").buffers()[2]
        if lines.size > _BLOCK_BYTES_MAX:
            return None
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    return [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in table.columns
    ]
