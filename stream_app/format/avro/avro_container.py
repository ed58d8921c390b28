"""Reads and writes Avro object container files, as Paimon stores manifests.

fastavro encodes the records. This module frames the file, so that it can use Arrow's codecs: each
version of fastavro requires another zstd library.

The writer adds a digest of schema and records to the header's metadata, where Avro allows further
keys. Without it a changed bit would go unnoticed, because neither Java's zstd frames nor Avro's
records have a checksum.

Source: Avro specification 1.11, "Object Container Files"; Paimon `format/avro/AvroFileFormat.java`.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fastavro
import orjson
import pyarrow as pa

from stream_app.errors import CorruptFileError

_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_BLOCK_SIZE = 256 * 1024
_RAW_DEFLATE = -15
_CRC_SIZE = 4
_DIGEST = "stream_app.digest"
_DIGEST_SIZE = 16

_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC_SIZE}},
        ],
    }
)
_BLOCK = fastavro.parse_schema(
    {
        "type": "record",
        "name": "block",
        "fields": [
            {"name": "count", "type": "long"},
            {"name": "data", "type": "bytes"},
            {"name": "sync", "type": {"type": "fixed", "name": "block_sync", "size": _SYNC_SIZE}},
        ],
    }
)
_CODEC_NAMES = {
    "zstd": "zstandard",
    "deflate": "deflate",
    "null": "null",
    "none": "null",
    "snappy": "snappy",
    "bzip2": "bzip2",
}
"""Values of ``manifest.compression`` → Avro's names."""


def _identity(data: bytes) -> bytes:
    return data


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=_RAW_DEFLATE)
    return compressor.compress(data) + compressor.flush()


def _zstd(data: bytes) -> bytes:
    compressed_data: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return compressed_data


def _unzstd(data: bytes) -> bytes:
    # Decompress as a stream, because Java's frames lack the length.
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        content: bytes = stream.read()
    return content


def _snappy(data: bytes) -> bytes:
    compressed_data: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return compressed_data + zlib.crc32(data).to_bytes(_CRC_SIZE, "big")


def _unsnappy(data: bytes) -> bytes:
    compressed_data, crc = data[:-_CRC_SIZE], int.from_bytes(data[-_CRC_SIZE:], "big")
    # A snappy block begins with its uncompressed length, as a varint.
    length = 0
    for index, byte in enumerate(compressed_data):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    content: bytes = pa.decompress(compressed_data, length, codec="snappy", asbytes=True)
    if zlib.crc32(content) != crc:
        raise ValueError("a block is not what was written: its CRC differs")
    return content


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "zstandard": _zstd,
    "null": _identity,
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": bz2.compress,
}
_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "zstandard": _unzstd,
    "null": _identity,
    "deflate": lambda data: zlib.decompress(data, wbits=_RAW_DEFLATE),
    "snappy": _unsnappy,
    "bzip2": bz2.decompress,
}


def write_records(
    schema: Any,
    records: Sequence[dict[str, Any]],
    codec: str,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    """Encode records as a container file, which without records is only a header.

    Args:
        schema: as `fastavro.parse_schema` returns it.
        codec: as in ``manifest.compression``; ``null`` is also called ``none``.
        properties: further metadata of the header.

    Raises:
        ValueError, TypeError: a record does not fit the schema.
    """
    container = AvroContainer(schema, codec)
    digest = _digest_of(container.schema_text)
    blocks = []
    for content, block in container.blocks(records):
        digest.update(content)
        blocks.append(block)
    header = container.header({**(properties or {}), _DIGEST: digest.hexdigest()})
    return b"".join((header, *blocks))


class AvroContainer:
    """A container file, whose header and blocks frame the records.

    Args:
        schema: as `fastavro.parse_schema` returns it.
        codec: a value of ``manifest.compression``.
    """

    def __init__(self, schema: Any, codec: str) -> None:
        self.schema_text = orjson.dumps(_without_marks(schema))
        self._schema = schema
        self._codec = _CODEC_NAMES[codec]
        # The marker between blocks must only differ from the data. As a digest it is the same in
        # each file of a schema, so equal records make equal files.
        self._sync = hashlib.blake2b(self.schema_text, digest_size=_SYNC_SIZE).digest()

    def header(self, properties: Mapping[str, str]) -> bytes:
        """Return the header of the file, with further metadata."""
        meta = {
            "avro.schema": self.schema_text,
            "avro.codec": self._codec.encode(),
            **{key: text.encode() for key, text in properties.items()},
        }
        header = io.BytesIO()
        content = {"magic": _MAGIC, "meta": meta, "sync": self._sync}
        fastavro.schemaless_writer(header, _HEADER, content)
        return header.getvalue()

    def blocks(self, records: Sequence[dict[str, Any]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the bytes of some records, and the file's block that contains them.

        Raises:
            ValueError, TypeError: a record does not fit the schema.
        """
        records_buffer = io.BytesIO()
        count = 0
        for index, record in enumerate(records):
            fastavro.schemaless_writer(records_buffer, self._schema, record)
            count += 1
            if records_buffer.tell() >= _BLOCK_SIZE or index == len(records) - 1:
                content = records_buffer.getvalue()
                block_bytes = io.BytesIO()
                data = _COMPRESS[self._codec](content)
                fastavro.schemaless_writer(
                    block_bytes, _BLOCK, {"count": count, "data": data, "sync": self._sync}
                )
                yield content, block_bytes.getvalue()
                records_buffer = io.BytesIO()
                count = 0


def _digest_of(schema_text: bytes) -> hashlib.blake2b:
    """Return a digest of the schema, to which the caller adds the records' bytes."""
    return hashlib.blake2b(schema_text, digest_size=_DIGEST_SIZE)


def _without_marks(schema: Any) -> Any:
    """Return the schema without the keys that fastavro's parser adds."""
    return {key: value for key, value in schema.items() if not key.startswith("__")}


def read_records(data: bytes) -> list[dict[str, Any]]:
    """Decode all records by the file's own schema.

    Raises:
        CorruptFileError: the bytes are not a complete Avro container file.
    """
    return [record for block in record_blocks(data) for record in block]


def record_blocks(data: bytes) -> Iterator[list[dict[str, Any]]]:
    """Decode the records block by block, by the file's own schema.

    Raises:
        CorruptFileError: the bytes are not a complete Avro container file.
    """
    try:
        yield from _read_blocks(data)
    except Exception as error:
        # Damaged bytes make fastavro and the codecs raise arbitrary exceptions, so no narrower list
        # would be complete.
        raise CorruptFileError(
            f"not a readable Avro file of {len(data)} bytes: {type(error).__name__}: {error}",
            fix="compare the file's size with the one in its snapshot or manifest list; restore "
            "the table from a backup or roll back to a tag",
        ) from error


def _read_blocks(data: bytes) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of each block, and check the digest after the last one."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin with Avro's magic number")
    source = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(source, _HEADER, None)
    meta = header["meta"]
    schema = fastavro.parse_schema(orjson.loads(meta["avro.schema"]))
    decompress = _DECOMPRESS[meta.get("avro.codec", b"null").decode()]
    digest = _digest_of(meta["avro.schema"])
    while source.tell() < len(data):
        block: Any = fastavro.schemaless_reader(source, _BLOCK, None)
        if block["sync"] != header["sync"]:
            raise ValueError("a block does not end with the file's sync marker")
        content = decompress(block["data"])
        digest.update(content)
        stream = io.BytesIO(content)
        records: list[Any] = [
            fastavro.schemaless_reader(stream, schema, None) for _ in range(block["count"])
        ]
        if stream.tell() < len(content):
            raise ValueError("a block has bytes after its records")
        yield records
    # The digest is hexadecimal, because PyPaimon decodes all metadata as text.
    actual_digest = digest.hexdigest().encode()
    if meta.get(_DIGEST, actual_digest) != actual_digest:
        raise ValueError("its content has changed since it was written: its digest differs")
