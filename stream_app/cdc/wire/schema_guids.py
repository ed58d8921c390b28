"""Rewrites messages that name their schema by a GUID for a format that reads numbers.

Confluent's `HeaderSchemaIdSerializer` writes a byte 1 and the GUID into a header, which the reader
puts before the message. For Protobuf the indices of the message's type follow in the header, as
they follow a number.

Source: Confluent's `SchemaId.java`, of the package `schema.id` of its serializers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import (
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    slices_of,
    valid_of,
)
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import Schemas
from stream_app.cdc.wire.wire_format import HEAD, MAGIC

MAGIC_GUID = 1
_GUID_SIZE = 16
_HEAD_SIZE = 1 + _GUID_SIZE


def with_schema_numbers(cells: pa.Array, schemas: Schemas) -> pa.Array:
    """Return the messages with numbers in place of GUIDs; an unknown GUID stays.

    Args:
        cells: binary [n].

    Raises:
        SourceError: the registry does not answer.
    """
    filled_cells = cells.fill_null(b"") if cells.null_count else cells
    offsets, data = offsets_of(filled_cells).astype(np.int64), bytes_of(filled_cells)
    indices = np.flatnonzero(lengths_of(filled_cells) >= _HEAD_SIZE)
    indices = indices[data[offsets[indices]] == MAGIC_GUID]
    if not len(indices):
        return cells
    heads = data[offsets[indices][:, None] + np.arange(1, _HEAD_SIZE)]
    guids, guid_indices = np.unique(heads, axis=0, return_inverse=True)
    schema_numbers = _numbers_of_guids(guids, schemas)[guid_indices.reshape(-1)]
    indices, schema_numbers = indices[schema_numbers >= 0], schema_numbers[schema_numbers >= 0]
    starts = offsets[:-1].copy()
    rewritten_data = data.copy()
    starts[indices] += _HEAD_SIZE - HEAD.size
    # A number is shorter than a GUID, so it takes the place of the GUID's last bytes.
    number_bytes = np.frombuffer(schema_numbers.astype(">u4").tobytes(), np.uint8).reshape(
        -1, HEAD.size - 1
    )
    rewritten_data[starts[indices]] = MAGIC
    rewritten_data[starts[indices][:, None] + np.arange(1, HEAD.size)] = number_bytes
    bodies = slices_of(rewritten_data, starts, offsets[1:])
    return null_where(bodies, ~valid_of(cells)) if cells.null_count else bodies


def _numbers_of_guids(guids: npt.NDArray[np.uint8], schemas: Schemas) -> npt.NDArray[np.int64]:
    """Return the number of each GUID, int64 [m]; -1 for a GUID that the registry does not have."""
    schema_numbers = np.full(len(guids), -1, np.int64)
    for index, guid in enumerate(guids):  # a loop over schemas
        try:
            schema_numbers[index] = schemas.schema_number_of(guid.tobytes())
        except UnreadableRecordError:
            continue
    return schema_numbers
