"""Encodes a data file's indexes, by column and kind of index.

=================  =================================================================
head               magic number (8), version (4), length of the head (4)
                   number of columns (4)
of each column     name (UTF), number of its indexes (4)
of each index      kind (UTF), start in the file (4; -1: none), length (4)
                   number of further bytes of the head (4): 0
body               the indexes, in the order of the head
=================  =================================================================

Numbers are big-endian. UTF means Java's form: two bytes of length, and modified UTF-8.

Source: Paimon `fileindex/FileIndexFormat.java`, `io/DataFileIndexWriter.java`,
`java.io.DataOutput#writeUTF`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from stream_app.format.file_index.java_hash_order import hash_order, name_order, string_hash

Bodies = dict[str, dict[str, bytes | None]]
"""The bytes of indexes by column and kind; None if Paimon found nothing to index."""

_MAGIC = 1_493_475_289_347_502
_VERSION = 1
_START = struct.Struct(">qii")
_EXTENT = struct.Struct(">ii")
_NO_BODY = -1
_FALSE_HASH = 1237


def encode_file_index(bodies: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Encode indexes as one file, in the order of the mappings."""
    kinds = [kind for by_kind in bodies.values() for kind in by_kind]
    head_length = _START.size + 4 + 4 + sum(len(_encode_text(name)) + 4 for name in bodies)
    head_length += sum(len(_encode_text(kind)) + _EXTENT.size for kind in kinds)
    head = [_START.pack(_MAGIC, _VERSION, head_length), struct.pack(">i", len(bodies))]
    body = bytearray()
    for name, by_kind in bodies.items():
        head += [_encode_text(name), struct.pack(">i", len(by_kind))]
        for kind, data in by_kind.items():
            start = _NO_BODY if data is None else head_length + len(body)
            head += [_encode_text(kind), _EXTENT.pack(start, len(data or b""))]
            body += data or b""
    return b"".join([*head, struct.pack(">i", 0), bytes(body)])


def decode_file_index(data: bytes) -> Bodies:
    """Decode the indexes of a file.

    Raises:
        ValueError, struct.error: the bytes are not such a file, or of a later version.
    """
    magic, version, head_length = _START.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError(f"it begins with {magic} and version {version}, not {_MAGIC} and 1")
    if len(data) < head_length:
        raise ValueError(f"it has {len(data)} bytes, and its head alone {head_length}")
    byte_offset = _START.size
    (columns,) = struct.unpack_from(">i", data, byte_offset)
    byte_offset += 4
    bodies: Bodies = {}
    for _ in range(columns):
        name, byte_offset = _decode_text(data, byte_offset)
        (kinds,) = struct.unpack_from(">i", data, byte_offset)
        byte_offset += 4
        by_kind = bodies.setdefault(name, {})
        for _ in range(kinds):
            kind, byte_offset = _decode_text(data, byte_offset)
            start, length = _EXTENT.unpack_from(data, byte_offset)
            byte_offset += _EXTENT.size
            if start != _NO_BODY and len(data) < start + length:
                raise ValueError(f"the {kind} of {name!r} exceeds the {len(data)} bytes")
            by_kind[kind] = None if start == _NO_BODY else data[start : start + length]
    return bodies


def java_order(indexes: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the columns and kinds of indexes in the order in which Java writes them.

    Java keeps them in nested hash maps, whose order this reproduces.

    Args:
        indexes: columns and kinds in the order of the options.
    """
    columns = list(dict.fromkeys(column for column, _ in indexes))
    declared_columns = [
        columns[index]
        for index in hash_order([_column_hash(name) for name in columns], is_computed=True)
    ]
    kinds = list(
        dict.fromkeys(
            kind for name in declared_columns for column, kind in indexes if column == name
        )
    )
    kinds = name_order(kinds, is_computed=True)
    index_order = [
        (column, kind)
        for kind in kinds
        for column in name_order([name for name in declared_columns if (name, kind) in indexes],
                                 is_computed=False)
    ]  # fmt: skip
    written_columns = name_order(
        list(dict.fromkeys(name for name, _ in index_order)), is_computed=True
    )
    return [
        (column, kind)
        for column in written_columns
        for kind in name_order([kind for name, kind in index_order if name == column],
                               is_computed=False)
    ]  # fmt: skip


def _column_hash(name: str) -> int:
    """Return the hash of Java's `FileIndexOptions.Column`, of a name without a MAP's key."""
    return (((31 + string_hash(name)) * 31) * 31 + _FALSE_HASH) & 0xFFFFFFFF


def _encode_text(text: str) -> bytes:
    pairs = re.sub("[\U00010000-\U0010ffff]", _surrogate_bytes, text)
    data = pairs.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(data)) + data


def _surrogate_bytes(match: re.Match[str]) -> str:
    return "".join(map(chr, struct.unpack(">2H", match[0].encode("utf-16-be"))))


def _decode_text(data: bytes, byte_offset: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, byte_offset)
    end = byte_offset + 2 + length
    halves = (
        data[byte_offset + 2 : end].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    )
    return halves.encode("utf-16", "surrogatepass").decode("utf-16"), end
