"""Of which tables of the source records tell, by database, schema and table.

PostgreSQL names schema and table, MySQL no schema.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools


def table_name(*names: str) -> str:
    """The name of a source's table, from the outermost to the table's own.

    Empty when the table itself is not told.
    """
    return ".".join(filter(None, names)) if names[-1] else ""


def first_records(columns: Sequence[pa.Array], wanted: Bools) -> dict[str, int]:
    """Name of each source table → its first record among those that are wanted.

    Args:
        columns: strings [n] of names from the outermost to the table's own, such as database,
            schema and table; without them nothing is known.
        wanted: bool [n].
    """
    records = np.flatnonzero(wanted)
    if not columns or not len(records):
        return {}
    if len(records) < len(wanted):
        columns = [column.take(pa.array(records)) for column in columns]
    if all(len(column.unique()) == 1 for column in columns):
        first = np.zeros(1, np.int64)
    else:
        joined = pc.binary_join_element_wise(
            *columns, "\0", null_handling="replace", null_replacement=""
        )
        codes = joined.dictionary_encode().indices.to_numpy()
        first = np.sort(np.unique(codes, return_index=True)[1])
    found: dict[str, int] = {}
    for row in first.tolist():  # a loop over tables
        name = table_name(*(column[row].as_py() or "" for column in columns))
        found.setdefault(name, int(records[row]))
    return found
