"""The port of a kind of file index: a builder of its bytes, and a reader of them.

Each kind is a module of this folder and a line of `file_index_registry`. An index may exclude only
rows that surely do not pass. So the result of a test is the set of rows that may pass, or None if
any row may.

Source: Paimon `fileindex/FileIndexer.java`, `fileindex/FileIndexReader.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyroaring import BitMap

from stream_app.model.schema.data_type import DataType


class IndexComparison(enum.Enum):
    """A test of a column's value."""

    ONE_OF = "in"
    NONE_OF = "not in"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    NULL = "is null"
    NOT_NULL = "is not null"


@dataclass(frozen=True, slots=True)
class IndexTest:
    """A test of one column.

    Attributes:
        values: values of the column's Arrow type without nulls; one for comparisons of order, none
            for tests of nulls.
    """

    comparison: IndexComparison
    values: pa.Array


class IndexBuilder(Protocol):
    """A builder of the index of one column of one data file."""

    def add(self, values: pa.Array) -> None:
        """Add the column's values of the next rows."""
        ...

    def body(self) -> bytes | None:
        """Return the bytes of the index; None if it cannot store these values."""
        ...


class IndexReader(Protocol):
    """A reader of the index of one column of one data file."""

    def rows(self, test: IndexTest) -> BitMap | None:
        """Return the rows that may pass, by their positions in the file; None if any may."""
        ...


@dataclass(frozen=True, slots=True)
class FileIndexKind:
    """One kind of index; `model.schema.file_index_problems` defines for which types.

    Attributes:
        name: the name in options and files.
        make_builder: makes a builder from the type and the column's settings, such as ``fpp``.
        make_reader: makes a reader from the bytes of an index.
    """

    name: str
    make_builder: Callable[[DataType, Mapping[str, str]], IndexBuilder]
    make_reader: Callable[[bytes, DataType], IndexReader]
