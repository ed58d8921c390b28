"""Canal's messages of one shape → images of their rows, in columns.

1. Parse all messages: lists of rows, and lists of their former values.
2. Concatenate the rows of all messages, each beside its former values.
3. Convert values of ENUM, SET, BIT and of geometries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.alike.changed_columns import filled_up, nulls_behind, ops_of, told_nulls
from stream_app.cdc.alike.dialect import Parsed, Table
from stream_app.cdc.canal.mysql_types import converted
from stream_app.cdc.columns.arrow_buffers import Int64s, bools_of, children_of, taken, valid_of
from stream_app.cdc.columns.column_reading import Family, JsonKind, row_fields
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.images import Images
from stream_app.cdc.row_assembly import CREATE, DELETE, UPDATE

OPS = {"INSERT": CREATE, "ROW": CREATE, "UPDATE": UPDATE, "DELETE": DELETE}


def parse_columns(values: pa.Array, table: Table, kinds: Sequence[JsonKind]) -> Parsed | None:
    """Parse messages in one go; None when they do not parse as these kinds."""
    row = pa.struct(row_fields(table.readings, kinds))
    texts = [
        reading for reading in table.readings if reading.family in (Family.STRING, Family.BINARY)
    ]
    fields = [
        *((name, pa.string()) for name in ("database", "table", "type")),
        ("isDdl", pa.bool_()),
        ("data", pa.list_(row)),
        ("old", pa.list_(row)),
    ]
    if texts:
        fields.append(("mysqlType", pa.struct([(reading.name, pa.string()) for reading in texts])))
    columns = parse_objects(values, pa.schema(fields))  # step 1
    if columns is None:
        return None
    database, name, kind, is_ddl, data, old, *types = columns
    message_ops = ops_of(kind, OPS)
    odd = (message_ops == 0) | bools_of(is_ddl)
    is_update = message_ops == UPDATE
    (now, now_start, now_count), (then, then_start, then_count) = _rows(data), _rows(old)
    odd |= (now_count == 0) | (is_update & (then_count != now_count))
    message = np.repeat(np.arange(len(values)), now_count)  # step 2
    ops = message_ops[message]
    has_old = (is_update & ~odd)[message]
    in_message = np.arange(len(message)) - now_start[message]
    places = np.where(has_old, then_start[message] + in_message, -1)
    before = [taken(column, places) for column in children_of(then)]
    after = children_of(now)
    nulls, doubtful = told_nulls(
        values,
        nulls_behind(values, is_update & ~odd, b'"old":'),
        [reading.name for reading in table.readings],
        lambda document, at: enumerate(document["old"], int(now_start[at])),
    )
    odd[doubtful] = True
    is_row = valid_of(now)
    # An update's row that has no object in `old` has nothing that it was before.
    is_row &= ~has_old | valid_of(taken(then, places))
    odd[message[~is_row]] = True
    befores = filled_up(before, after, nulls)
    for place, reading in enumerate(table.readings):  # step 3
        if reading in texts:
            column = types[0].field(texts.index(reading)).take(pa.array(message))
            for side in (befores, after):
                side[place], failed = converted(reading.family, column, side[place])
                odd[message[failed]] = True
    is_delete = ops == DELETE
    images = Images(
        ops=ops,
        has_before=is_delete | (ops == UPDATE),
        has_after=~is_delete,
        kinds=kinds,
        before=befores,
        after=after,
        suspects=odd[message],
        tables=(database.take(message), name.take(message)) if table.reads_tables else (),
    )
    return Parsed(images, message, odd)


def _rows(lists: pa.Array) -> tuple[pa.Array, Int64s, Int64s]:
    """The rows of n messages behind one another; of each message its first and how many it has."""
    count = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    return lists.flatten(), np.cumsum(count) - count, count
