"""Avro object container files, as Paimon stores manifests.

Source: Paimon `format/avro/AvroFileFormat.java`; Paimon's codec names are those of its option
``manifest.compression``.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro

from stream_app.errors import CorruptFileError

_CODECS = {"zstd": "zstandard", "none": "null", "deflate": "deflate"}


def write_records(schema: Any, records: Sequence[dict[str, Any]], codec: str) -> bytes:
    """A container file with these records; a header only when there are none.

    Args:
        schema: as `fastavro.parse_schema` returns it.
        codec: ``zstd``, ``deflate`` or ``none``.
    """
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec=_CODECS[codec])
    return sink.getvalue()


def read_records(data: bytes) -> list[dict[str, Any]]:
    """All records, by the schema that the file itself carries.

    Raises:
        CorruptFileError: the bytes are no complete Avro container file.
    """
    try:
        records: list[Any] = list(fastavro.reader(io.BytesIO(data)))
        return records
    except Exception as error:
        # fastavro lets through whatever its decoders and the codecs' libraries raise, so no
        # narrower list of exceptions would be complete.
        raise CorruptFileError(
            f"not a readable Avro file of {len(data)} bytes: {type(error).__name__}: {error}",
            fix="compare the file's size with the one in its snapshot or manifest list; restore "
            "the table from a backup or roll back to a tag",
        ) from error
