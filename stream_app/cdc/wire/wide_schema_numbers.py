"""Cuts a schema's number of eight bytes to the four that formats read.

Apicurio's older serializers write such numbers, and its headers have them. The first four bytes are
zero, because the numbers count schemas; they are cut out. Messages with a larger number are bad.

Source: Apicurio Registry's `Legacy8ByteIdHandler.java`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import (
    Bools,
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    slices_of,
    valid_of,
)
from stream_app.cdc.wire.wire_format import MAGIC

_HEAD_SIZE = 9
_CUT_SIZE = 4


def narrow_numbers(cells: pa.Array) -> pa.Array:
    """Return the messages with numbers of four bytes.

    Args:
        cells: binary [n].
    """
    filled_cells = cells.fill_null(b"") if cells.null_count else cells
    offsets, data = offsets_of(filled_cells).astype(np.int64), bytes_of(filled_cells)
    indices = np.flatnonzero(lengths_of(filled_cells) >= _HEAD_SIZE)
    cell_starts = offsets[indices]
    # The magic byte moves to the position before the last four bytes of the number.
    first_bytes = data[cell_starts[:, None] + np.arange(1 + _CUT_SIZE)]
    is_wide = np.zeros(len(filled_cells), np.bool_)
    is_wide[indices] = (first_bytes == MAGIC).all(axis=1)
    starts = np.where(is_wide, offsets[:-1] + _CUT_SIZE, offsets[:-1])
    bodies = slices_of(
        data, starts, np.where(_has_magic(filled_cells) & ~is_wide, starts, offsets[1:])
    )
    return null_where(bodies, ~valid_of(cells)) if cells.null_count else bodies


def _has_magic(cells: pa.Array) -> Bools:
    offsets, data = offsets_of(cells).astype(np.int64), bytes_of(cells)
    filled_indices = np.flatnonzero(lengths_of(cells) > 0)
    has_magic: Bools = np.zeros(len(cells), np.bool_)
    has_magic[filled_indices] = data[offsets[filled_indices]] == MAGIC
    return has_magic
