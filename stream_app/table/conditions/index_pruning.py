"""Skips data files without a matching row, according to their file indexes.

`table.read` calls it: planning uses the indexes in manifests, and reading uses those in files
beside the data files. An index covers only its file's rows. So a merging read may skip a file only
together with its whole section.

Source: Paimon `fileindex/FileIndexPredicate.java`, `io/FileIndexEvaluator.java`.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyroaring import BitMap

from stream_app.errors import CorruptFileError
from stream_app.filestore.data.file_index_writer import INDEX_SUFFIX
from stream_app.format.arrow_schema import arrow_scalar, arrow_type
from stream_app.format.file_index.container import Bodies, decode_file_index
from stream_app.format.file_index.file_index_registry import FILE_INDEX_KINDS
from stream_app.format.file_index.index_kind import IndexComparison, IndexTest
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.file_options import FILE_INDEX_READ_ENABLED
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataField
from stream_app.model.schema.table_schema import TableSchema
from stream_app.predicate import predicate as tree
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
ColumnAndKind = tuple[str, str]
"""The name of a column, and a kind of index."""
PossibleRows = BitMap | None
"""The positions of a file's rows that may pass; None if any row may."""

INDEX_FIX = "set 'file-index.read.enabled' = 'false', and compact the table fully"
"""The fix for an index that cannot be read."""
_COMPARISONS = {
    "=": IndexComparison.ONE_OF,
    "<>": IndexComparison.NONE_OF,
    "<": IndexComparison.LESS,
    "<=": IndexComparison.AT_MOST,
    ">": IndexComparison.GREATER,
    ">=": IndexComparison.AT_LEAST,
}
_OPPOSITES = {
    IndexComparison.ONE_OF: IndexComparison.NONE_OF,
    IndexComparison.LESS: IndexComparison.AT_LEAST,
    IndexComparison.GREATER: IndexComparison.AT_MOST,
    IndexComparison.NULL: IndexComparison.NOT_NULL,
}
_OPPOSITES |= {opposite: comparison for comparison, opposite in _OPPOSITES.items()}


@dataclass(frozen=True, slots=True)
class IndexPruning:
    """A test of a condition by the indexes of a table's files.

    Attributes:
        unknown_indexes: the columns with an index of an unknown kind, and the kinds, of which each
            is logged once.
    """

    table: FileStoreTable
    predicate: tree.Predicate
    schema_of: Callable[[int], TableSchema]
    unknown_indexes: set[ColumnAndKind]

    def may_hold(self, file: DataFileMeta) -> bool:
        """Return whether a row of a file may match, by the index in its manifest entry.

        Raises:
            CorruptFileError: the index cannot be read.
        """
        return file.embedded_index is None or self._may_match(file, file.embedded_index)

    def is_worth_reading(self, bucket_id: BucketId, file: DataFileMeta) -> bool:
        """Return whether a row of a file may match, by the index in a file beside it.

        Raises:
            CorruptFileError: the index is missing or cannot be read.
        """
        for path in self.table.paths.extra_files(*bucket_id, file):
            if not path.endswith(INDEX_SUFFIX):
                continue
            try:
                index_bytes = self.table.file_io.read_bytes(path)
            except FileNotFoundError:
                raise CorruptFileError(
                    "the index of a data file is missing",
                    where=path,
                    fix=INDEX_FIX,
                ) from None
            if not self._may_match(file, index_bytes, path):
                return False
        return True

    def _may_match(self, file: DataFileMeta, index_bytes: bytes, path: str = "") -> bool:
        schema = self.schema_of(file.schema_id)
        try:
            bodies = decode_file_index(index_bytes)
            self._warn_of_unknown(bodies)
            possible_rows = _FileIndexTest(bodies, schema).possible_rows(self.predicate)
        except (struct.error, ValueError, IndexError) as error:
            raise CorruptFileError(
                f"the index of a data file cannot be read: {error}",
                where=path or file.file_name,
                fix=INDEX_FIX,
            ) from error
        return possible_rows is None or bool(possible_rows)

    def _warn_of_unknown(self, bodies: Bodies) -> None:
        """Log each column with an index of an unknown kind once."""
        for column, bodies_by_kind in bodies.items():
            for kind in bodies_by_kind.keys() - FILE_INDEX_KINDS.keys():
                if (column, kind) in self.unknown_indexes:
                    continue
                self.unknown_indexes.add((column, kind))
                _LOG.warning(
                    "%s has indexes of column %r of the unknown kind %r: "
                    "reads open the files that they would leave out; index the column by %s, or "
                    "read it with Paimon's own readers",
                    self.table.location,
                    column,
                    kind,
                    " or ".join(FILE_INDEX_KINDS),
                )


@dataclass(frozen=True, slots=True)
class _FileIndexTest:
    """A test of a condition on the current columns by the indexes of one file.

    Attributes:
        schema: the file's schema, which has the columns' names in the index.
    """

    bodies: Bodies
    schema: TableSchema

    def possible_rows(self, condition: tree.Predicate, *, is_negated: bool = False) -> PossibleRows:
        """Return the rows that may pass a condition, or its negation."""
        match condition:
            case tree.Not(child):
                return self.possible_rows(child, is_negated=not is_negated)
            case tree.And(children):
                rows_of_children = [
                    self.possible_rows(child, is_negated=is_negated) for child in children
                ]
                return _any_of(rows_of_children) if is_negated else _all_of(rows_of_children)
            case tree.Or(children):
                rows_of_children = [
                    self.possible_rows(child, is_negated=is_negated) for child in children
                ]
                return _all_of(rows_of_children) if is_negated else _any_of(rows_of_children)
            case tree.Always(column, is_true) if is_true == is_negated:
                return BitMap()
            case tree.Always(column):
                return self._rows_by_indexes(column, IndexComparison.NOT_NULL, ())
            case _:
                return self._rows_of_test(condition, is_negated=is_negated)

    def _rows_of_test(
        self, test: tree.Compare | tree.OneOf | tree.IsNull | tree.Matches, *, is_negated: bool
    ) -> PossibleRows:
        match test:
            case tree.Compare(column, sign, value):
                comparison = _COMPARISONS[sign]
                values = (value,)
            case tree.OneOf(column, values):
                comparison = IndexComparison.ONE_OF
            case tree.IsNull(column):
                return self._rows_by_indexes(
                    column, IndexComparison.NOT_NULL if is_negated else IndexComparison.NULL, ()
                )
            case tree.Matches():
                return None
        return self._rows_by_indexes(
            column, _OPPOSITES[comparison] if is_negated else comparison, values
        )

    def _rows_by_indexes(
        self, column: DataField, comparison: IndexComparison, values: tuple[object, ...]
    ) -> PossibleRows:
        """Return the rows that may pass a comparison, by the indexes of its column."""
        columns_by_id = {file_column.field_id: file_column for file_column in self.schema.fields}
        file_column = columns_by_id.get(column.field_id)
        if (
            file_column is None
            or file_column.data_type.as_nullable() != column.data_type.as_nullable()
        ):
            return None  # the index has values of another type
        if column.data_type.root in FLOAT_ROOTS and 0 in values:
            return None  # 0.0 and -0.0 are equal, but an index distinguishes them
        scalars = [arrow_scalar(value, column.data_type) for value in values]
        array = pa.array(scalars, arrow_type(column.data_type))
        test = IndexTest(comparison, array)
        return _all_of(
            FILE_INDEX_KINDS[kind].make_reader(body, file_column.data_type).rows(test)
            for kind, body in self.bodies.get(file_column.name, {}).items()
            if body is not None and kind in FILE_INDEX_KINDS
        )


def _all_of(row_sets: Iterable[PossibleRows]) -> PossibleRows:
    known_rows = [rows for rows in row_sets if rows is not None]
    return reduce(and_, known_rows) if known_rows else None


def _any_of(row_sets: Iterable[PossibleRows]) -> PossibleRows:
    row_sets = list(row_sets)
    known_rows = [rows for rows in row_sets if rows is not None]
    return reduce(or_, known_rows) if len(known_rows) == len(row_sets) else None


def index_pruning(
    table: FileStoreTable, row_filter: RowFilter | None, unknown_indexes: set[ColumnAndKind]
) -> IndexPruning | None:
    """Return the pruning of a condition; None if no index can help.

    Args:
        unknown_indexes: gets the columns with an index of an unknown kind, each of which is logged
            once; one set for each read or plan.
    """
    if row_filter is None or row_filter.predicate is None:
        return None
    if not table.options[FILE_INDEX_READ_ENABLED]:
        return None
    return IndexPruning(table, row_filter.predicate, table.known_schemas(), unknown_indexes)
