"""Encodes the deletion vectors of one of Paimon's index files as a Puffin file.

A 64-bit vector has the same bytes in both files. Only the first bytes differ, and a Puffin file
ends with a footer that names its vectors::

    index file    1          vector vector …
    Puffin file   P F A 1    vector vector …   footer

Source: Iceberg's Puffin specification, "deletion-vector-v1".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import orjson

from stream_app.errors import UnsupportedTableError
from stream_app.format.deletion_vector import FILE_HEADER, MAGIC_64
from stream_app.model.iceberg_metadata import IcebergFile

_MAGIC = b"PFA1"
SHIFT = len(_MAGIC) - len(FILE_HEADER)
"""The difference of a vector's offsets in the Puffin file and in the index file."""
_LENGTH_FIELD_SIZE = 4
_POSITION_FIELD_ID = 2_147_483_645
_UNKNOWN = -1
"""The value for an unknown snapshot or sequence number, which a vector inherits from its
manifest."""


def puffin_of(index_file: bytes, vectors: Sequence[IcebergFile]) -> bytes:
    """Convert an index file to a Puffin file.

    Args:
        vectors: all vectors of the index file, with their positions in the Puffin file.

    Raises:
        UnsupportedTableError: a vector has 32 bits, which Iceberg does not support.
    """
    content = _MAGIC + index_file[len(FILE_HEADER) :]
    blobs = []
    for file in vectors:
        vector = file.vector
        assert vector is not None, file
        if content[vector.offset + _LENGTH_FIELD_SIZE :][: len(MAGIC_64)] != MAGIC_64:
            raise UnsupportedTableError(
                f"the deletion vector of {vector.data_file} has 32 bits, and Iceberg's have 64",
                fix="compact the table fully (stream-app compact --full)",
            )
        blob = {
            "type": "deletion-vector-v1",
            "fields": [_POSITION_FIELD_ID],
            "snapshot-id": _UNKNOWN,
            "sequence-number": _UNKNOWN,
            "offset": vector.offset,
            "length": vector.length,
            "properties": {
                "referenced-data-file": vector.data_file,
                "cardinality": str(file.row_count),
            },
        }
        blobs.append(blob)
    footer = orjson.dumps({"blobs": blobs, "properties": {}})
    return content + _MAGIC + footer + struct.pack("<ii", len(footer), 0) + _MAGIC
