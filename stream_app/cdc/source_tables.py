"""Finds the source table of records, by database, schema and table.

PostgreSQL names schema and table, MySQL no schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int32s, valid_of
from stream_app.model.source.origin import Origin
from stream_app.model.source.topic_name import cluster_and_name, in_cluster

NO_TABLE = -1
"""Code of a message that names no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """The source table of each of n messages.

    Attributes:
        tables: the distinct source tables.
        codes: int32 [n]; index in `tables`, or `NO_TABLE` for a message that cannot be read or
            means no row, e.g. a tombstone, a heartbeat or a transaction marker.
        unassigned_reasons: index of a message → why it cannot be assigned to a table.
    """

    tables: tuple[Origin, ...]
    codes: Int32s
    unassigned_reasons: Mapping[int, str] = field(default_factory=dict)


def origins_of(
    databases: pa.Array,
    schemas: pa.Array,
    tables: pa.Array,
    unassigned_reasons: Mapping[int, str],
) -> Origins:
    """Return the origins of n messages, by the names in each.

    Args:
        databases, schemas, tables: strings [n], plain or dictionary-encoded; null if unknown. A
            message without a table has no origin.
    """
    codes: Int32s = np.full(len(tables), NO_TABLE, np.int32)
    names = [_as_strings(column) for column in (databases, schemas, tables)]
    named_indices = np.flatnonzero(valid_of(names[2]))
    if not len(named_indices):
        return Origins(tables=(), codes=codes, unassigned_reasons=unassigned_reasons)
    known_names = [column.take(pa.array(named_indices)) for column in names]
    joined_names = pc.binary_join_element_wise(
        *known_names, "\0", null_handling="replace", null_replacement=""
    ).dictionary_encode()
    origins = tuple(Origin(*text.split("\0")) for text in joined_names.dictionary.to_pylist())
    codes[named_indices] = joined_names.indices.to_numpy()
    return Origins(tables=origins, codes=codes, unassigned_reasons=unassigned_reasons)


def origins_with_clusters(
    find_origins: Callable[[pa.RecordBatch], Origins], messages: pa.RecordBatch
) -> Origins:
    """Return the origins of messages with the cluster of their topics."""
    origins = find_origins(messages)
    topics = messages.column("topic").dictionary_encode()
    clusters = [cluster_and_name(topic)[0] for topic in topics.dictionary.to_pylist()]
    if not any(clusters) or not origins.tables:
        return origins
    pairs = origins.codes.astype(np.int64) * len(clusters) + topics.indices.to_numpy()
    distinct_pairs, pair_indices = np.unique(pairs, return_inverse=True)
    first_named = int(np.searchsorted(distinct_pairs, 0))  # pairs of `NO_TABLE` are negative
    tables: dict[Origin, int] = {}
    codes = np.full(len(distinct_pairs), NO_TABLE, np.int32)
    # A loop over topics.
    for index, pair in enumerate(distinct_pairs[first_named:].tolist(), start=first_named):
        code, topic = divmod(pair, len(clusters))
        origin = _in_cluster(origins.tables[code], clusters[topic])
        codes[index] = tables.setdefault(origin, len(tables))
    return replace(origins, tables=tuple(tables), codes=codes[pair_indices])


def _in_cluster(origin: Origin, cluster: str) -> Origin:
    # A format whose messages name no table takes the topic's name.
    name = origin.table.removeprefix(in_cluster(cluster, "")) if cluster else origin.table
    return replace(origin, table=name, cluster=cluster)


def messages_by_origin(
    find_origins: Callable[[pa.RecordBatch], Origins], messages: pa.Table
) -> Iterator[tuple[Origin, pa.RecordBatch]]:
    """Yield the messages of each source table, in the order of the tables' names."""
    batches = messages.combine_chunks().to_batches()
    if not batches:
        return
    origins = find_origins(batches[0])
    for code, origin in sorted(enumerate(origins.tables), key=lambda item: item[1]):
        yield origin, batches[0].filter(pa.array(origins.codes == code))


def _as_strings(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def table_name(*names: str) -> str:
    """Join the names of a source's table by dots; the result is empty if the table is unknown.

    Args:
        names: from the outermost name to the table's own.
    """
    return ".".join(filter(None, names)) if names[-1] else ""


def first_records(columns: Sequence[pa.Array], mask: Bools) -> dict[str, int]:
    """Return the name of each source table → the index of its first record in the mask.

    Args:
        columns: strings [n] of names from the outermost to the table's own, such as database,
            schema and table, or dictionaries of them. Without columns the result is empty.
        mask: bool [n].
    """
    record_indices = np.flatnonzero(mask)
    if not columns or not len(record_indices):
        return {}
    if len(record_indices) < len(mask):
        columns = [column.take(pa.array(record_indices)) for column in columns]
    if all(map(_is_constant, columns)):
        first_indices = np.zeros(1, np.int64)
    else:
        columns = [column.cast(pa.string()) for column in columns]
        joined_names = pc.binary_join_element_wise(
            *columns, "\0", null_handling="replace", null_replacement=""
        )
        codes = joined_names.dictionary_encode().indices.to_numpy()
        first_indices = np.sort(np.unique(codes, return_index=True)[1])
    first_by_name: dict[str, int] = {}
    for index in first_indices.tolist():  # a loop over tables
        name = table_name(*(column[index].as_py() or "" for column in columns))
        first_by_name.setdefault(name, int(record_indices[index]))
    return first_by_name


def _is_constant(column: pa.Array) -> bool:
    if isinstance(column, pa.DictionaryArray) and not column.null_count:
        used_indices = np.flatnonzero(np.bincount(column.indices.to_numpy()))
        column = column.dictionary.take(pa.array(used_indices))
    return len(column.unique()) == 1
