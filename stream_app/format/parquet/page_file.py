"""Copies pages of columns into a small Parquet file in memory, which pyarrow decodes.

pyarrow decodes only whole column chunks. So the chosen pages become the chunks of a file with one
row group, whose footer is the original's with fewer columns. The pages stay unchanged, with their
checksums. Columns may have different numbers of rows there, so each is read separately.

Source: Apache Parquet `parquet.thrift` (FileMetaData, RowGroup, ColumnChunk, PageHeader).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.arrow_buffers import Int64s
from stream_app.format.parquet.page_index import ChunkPages
from stream_app.format.parquet.row_ranges import positions_among
from stream_app.format.parquet.thrift_compact import (
    I32,
    RawStruct,
    RawValue,
    decode_integer,
    integer_value,
    list_members,
    list_of_structs,
    raw_struct,
    raw_struct_and_end,
    struct_bytes,
)

Name = TypeVar("Name", bound=Hashable)
_MAGIC = b"PAR1"
_INDEX_FIELDS = {"offset": (4, 5), "column": (6, 7)}
_HEADER_OF_KIND = {0: 5, 3: 8}
"""Kind of data page, of version 1 and 2 → the field with its header."""
_VALUE_COUNT_FIELD = 1


class _FooterField(IntEnum):
    """Fields of ``FileMetaData``."""

    SCHEMA = 2
    ROW_COUNT = 3
    ROW_GROUPS = 4
    KEY_VALUES = 5
    COLUMN_ORDERS = 7


class _ElementField(IntEnum):
    """Fields of ``SchemaElement``."""

    NAME = 4
    CHILD_COUNT = 5


class _GroupField(IntEnum):
    """Fields of ``RowGroup``."""

    CHUNKS = 1
    SIZE = 2
    ROW_COUNT = 3


class _ChunkField(IntEnum):
    """Fields of ``ColumnChunk``."""

    FILE_PATH = 1
    FILE_OFFSET = 2
    METADATA = 3
    CRYPTO = 8
    ENCRYPTED_METADATA = 9


class _MetadataField(IntEnum):
    """The fields of ``ColumnMetaData`` that a file of chosen pages keeps.

    It omits the key-values, the statistics, the bloom filter and the sizes, which describe the
    whole chunk.
    """

    TYPE = 1
    ENCODINGS = 2
    PATH = 3
    CODEC = 4
    VALUE_COUNT = 5
    DECODED_SIZE = 6
    SIZE = 7
    DATA_OFFSET = 9
    DICTIONARY_OFFSET = 11
    ENCODING_STATS = 13


class _PageField(IntEnum):
    """Fields of ``PageHeader``."""

    KIND = 1
    SIZE = 3


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """The bytes of a file from `start` to before `end`."""

    start: int
    end: int


def group_near_spans(spans: Mapping[Name, ByteSpan], gap: int) -> Iterator[list[Name]]:
    """Group the names of spans to read together, in file order, across gaps smaller than `gap`."""
    group: list[Name] = []
    end = 0
    for name in sorted(spans, key=lambda name: spans[name].start):
        if group and spans[name].start - end > gap:
            yield group
            group = []
        group.append(name)
        end = max(end, spans[name].end) if len(group) > 1 else spans[name].end
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column chunk as described in the footer."""

    fields: RawStruct
    metadata: RawStruct

    @property
    def is_plain(self) -> bool:
        """Whether the chunk is in this file and unencrypted."""
        return not self.fields.keys() & {
            _ChunkField.FILE_PATH,
            _ChunkField.CRYPTO,
            _ChunkField.ENCRYPTED_METADATA,
        }

    @property
    def decoded_size(self) -> int:
        """The uncompressed size of its pages."""
        return decode_integer(self.metadata[_MetadataField.DECODED_SIZE])

    @property
    def span(self) -> ByteSpan:
        """The bytes of its pages, including the dictionary page."""
        start = decode_integer(self.metadata[_MetadataField.DATA_OFFSET])
        if _MetadataField.DICTIONARY_OFFSET in self.metadata:
            dictionary_start = decode_integer(self.metadata[_MetadataField.DICTIONARY_OFFSET])
            start = dictionary_start if 0 < dictionary_start < start else start
        return ByteSpan(start, start + decode_integer(self.metadata[_MetadataField.SIZE]))

    def index(self, kind: str) -> ByteSpan | None:
        """Return the bytes of its offset index or column index; None without one."""
        offset, length = _INDEX_FIELDS[kind]
        if offset not in self.fields or length not in self.fields:
            return None
        start = decode_integer(self.fields[offset])
        return ByteSpan(start, start + decode_integer(self.fields[length]))


@dataclass(frozen=True, slots=True)
class ChosenPages:
    """Pages of a column chunk for a small file.

    Attributes:
        dictionary: the bytes before the first data page; often empty.
        page_numbers: ascending.
        data: the bytes of each page.
    """

    chunk: ColumnChunk
    pages: ChunkPages
    dictionary: bytes
    page_numbers: Int64s
    data: Sequence[bytes]

    @property
    def row_count(self) -> int:
        """The number of rows of these pages."""
        return int(self.pages.row_counts[self.page_numbers].sum())

    def positions(self, row_positions: Sequence[int]) -> list[int]:
        """Return positions in the row group as positions among the rows of these pages."""
        pages = self.pages
        positions: list[int] = positions_among(
            pages.starts, pages.row_count, self.page_numbers, row_positions
        ).tolist()
        return positions

    def contradiction(self) -> str | None:
        """Return how page headers contradict the index; None if all agree."""
        counts = self.pages.row_counts[self.page_numbers].tolist()
        for data, row_count in zip(self.data, counts, strict=True):
            try:
                header, end = raw_struct_and_end(data, 0)
                kind_header = raw_struct(
                    header[_HEADER_OF_KIND[decode_integer(header[_PageField.KIND])]].data
                )
                values = decode_integer(kind_header[_VALUE_COUNT_FIELD])
                size = end + decode_integer(header[_PageField.SIZE])
            except (ValueError, IndexError, KeyError):
                return "a page has no header of a data page"
            if (values, size) != (row_count, len(data)):
                return (
                    f"a page has {values} rows in {size} bytes, and its index says {row_count} "
                    f"in {len(data)}"
                )
        return None


class ParsedFooter:
    """A footer, divided into columns and row groups.

    Raises:
        ValueError, IndexError, KeyError: the bytes are not a footer.
    """

    def __init__(self, footer: bytes) -> None:
        self._fields = raw_struct(footer)
        root, *elements = list_members(self._fields[_FooterField.SCHEMA])
        self._root = raw_struct(root)
        self._groups = list_members(self._fields[_FooterField.ROW_GROUPS])
        self._elements: dict[str, bytes] = {}
        depths: list[int] = []
        for element in elements:
            fields = raw_struct(element)
            children = (
                decode_integer(fields[_ElementField.CHILD_COUNT])
                if _ElementField.CHILD_COUNT in fields
                else 0
            )
            if not depths:
                self._elements[fields[_ElementField.NAME].data[1:].decode()] = element
            else:
                depths[-1] -= 1
            depths.append(children)
            while depths and depths[-1] == 0:
                depths.pop()

    @property
    def orders_columns(self) -> bool:
        """Whether bounds are in the order that the types define."""
        return _FooterField.COLUMN_ORDERS in self._fields

    def chunks(self, group: int) -> list[ColumnChunk]:
        """Return the column chunks of a row group."""
        chunks = [
            raw_struct(data)
            for data in list_members(raw_struct(self._groups[group])[_GroupField.CHUNKS])
        ]
        return [
            ColumnChunk(fields, raw_struct(fields[_ChunkField.METADATA].data)) for fields in chunks
        ]

    def open_pages(self, columns: Mapping[str, ChosenPages]) -> pq.ParquetFile:
        """Open a file of a row group's pages, of which the caller reads each column separately."""
        file_parts, chunks, position = [_MAGIC], [], len(_MAGIC)
        for pages in columns.values():
            chunk_parts = (pages.dictionary, *pages.data)
            chunks.append(
                _chunk_description(pages, ByteSpan(position, position + sum(map(len, chunk_parts))))
            )
            file_parts += chunk_parts
            position += sum(map(len, chunk_parts))
        row_count = max(pages.row_count for pages in columns.values())
        group: dict[int, RawValue] = {
            _GroupField.CHUNKS: list_of_structs(chunks),
            _GroupField.SIZE: integer_value(position),
            _GroupField.ROW_COUNT: integer_value(row_count),
        }
        root = self._root | {_ElementField.CHILD_COUNT: _count(len(columns))}
        elements = [struct_bytes(root), *(self._elements[name] for name in columns)]
        fields = self._fields | {
            _FooterField.SCHEMA: list_of_structs(elements),
            _FooterField.ROW_COUNT: integer_value(row_count),
            _FooterField.ROW_GROUPS: list_of_structs([struct_bytes(group)]),
        }
        for footer_field in (_FooterField.KEY_VALUES, _FooterField.COLUMN_ORDERS):
            fields.pop(footer_field, None)
        footer = struct_bytes(fields)
        file_parts += (footer, len(footer).to_bytes(4, "little"), _MAGIC)
        return pq.ParquetFile(
            pa.BufferReader(b"".join(file_parts)), pre_buffer=False, page_checksum_verification=True
        )


def _chunk_description(pages: ChosenPages, span: ByteSpan) -> bytes:
    """Return the description of a chunk with fewer pages at another position."""
    kept_fields = pages.chunk.metadata.keys() & {*_MetadataField}
    metadata = {field: pages.chunk.metadata[field] for field in kept_fields}
    has_dictionary = _MetadataField.DICTIONARY_OFFSET in metadata and bool(pages.dictionary)
    metadata.pop(_MetadataField.DICTIONARY_OFFSET, None)
    metadata[_MetadataField.VALUE_COUNT] = integer_value(pages.row_count)
    metadata[_MetadataField.SIZE] = integer_value(span.end - span.start)
    metadata[_MetadataField.DATA_OFFSET] = integer_value(span.start)
    if has_dictionary:
        metadata[_MetadataField.DATA_OFFSET] = integer_value(span.start + len(pages.dictionary))
        metadata[_MetadataField.DICTIONARY_OFFSET] = integer_value(span.start)
    fields: dict[int, RawValue] = {
        _ChunkField.FILE_OFFSET: integer_value(span.end),
        _ChunkField.METADATA: RawValue(
            pages.chunk.fields[_ChunkField.METADATA].type_code, struct_bytes(_sort_fields(metadata))
        ),
    }
    return struct_bytes(fields)


def _sort_fields(fields: RawStruct) -> RawStruct:
    return dict(sorted(fields.items()))


def _count(count: int) -> RawValue:
    """Encode a 32-bit integer."""
    return integer_value(count)._replace(type_code=I32)
