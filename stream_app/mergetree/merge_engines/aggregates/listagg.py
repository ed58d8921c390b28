"""Computes ``listagg``, which joins texts with a delimiter.

Source: Paimon `mergetree/compact/aggregate/FieldListaggAgg.java`,
`utils/BinaryStringUtils.java#splitByWholeSeparatorPreserveAllTokens`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.mergetree.merge_engines.aggregates.combined_values import is_counted_change
from stream_app.mergetree.merge_engines.aggregates.ordered_values import text_lengths
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    SegmentChanges,
    SegmentValues,
)
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


def join_texts(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Join the texts that are not empty, in order; a late text precedes the others."""
    changes.refuse_retract("listagg")
    is_counted = has_text = is_counted_change(column, changes)
    is_empty = valid_of(column) & (text_lengths(column) == 0)
    if has_empty := bool(is_empty.any()):
        has_text = is_counted & ~is_empty[changes.row_indices]
    bounds = np.concatenate(([0], np.cumsum(has_text)[changes.ends]))
    row_indices = changes.row_indices[changes.in_order(has_text)]
    if aggregate.is_distinct:
        texts = column.take(pa.array(row_indices))
        segments = np.repeat(np.arange(len(changes.starts)), np.diff(bounds))
        column, segments = _distinct_parts(texts, segments, aggregate.delimiter)
        row_indices = np.arange(len(column))
        bounds = np.searchsorted(segments, np.arange(len(changes.starts) + 1))
    # Only empty texts give an empty result, and no texts give null.
    return _join(
        column,
        row_indices,
        bounds,
        aggregate.delimiter,
        changes.has_any(is_counted) if has_empty else None,
    )


def _join(
    texts: pa.Array, row_indices: Int64s, bounds: Int64s, delimiter: str, has_result: Bools | None
) -> pa.Array:
    """Join the texts of each segment.

    One take gathers all texts, with the delimiter between those of a segment. So the bytes of a
    segment are contiguous. That takes half the time of `binary_join`.

    Args:
        row_indices: int64 [m], the index of each text.
        bounds: int64 [segments + 1], where each segment begins, and the end.
        has_result: bool [segments]; which results are not null; None: those with a text.
    """
    has_value = bounds[1:] > bounds[:-1]
    is_later = np.ones(len(row_indices) + 1, np.bool_)
    is_later[bounds[:-1]] = False
    text_indices = np.arange(len(row_indices)) + np.cumsum(is_later[:-1])
    ends = np.concatenate(([0], 2 * bounds[1:] - np.cumsum(has_value)))
    pieces = np.full(ends[-1], len(texts))
    pieces[text_indices] = row_indices
    texts_and_delimiter = pa.concat_arrays([texts, pa.array([delimiter], texts.type)])
    _, offsets, data = texts_and_delimiter.take(pa.array(pieces)).buffers()
    segment_offsets = np.frombuffer(offsets, np.int32)[ends]
    validity = pa.array(has_value if has_result is None else has_result).buffers()[1]
    return pa.Array.from_buffers(
        texts.type, len(has_value), [validity, pa.py_buffer(segment_offsets), data]
    )


def _distinct_parts(texts: pa.Array, segments: Int64s, delimiter: str) -> tuple[pa.Array, Int64s]:
    """Return each segment's first text unchanged, then each new part of the others once.

    Two segments of two texts::

        texts       ["a,b", "b,c", "a", "a,d"]     segments   [0, 0, 1, 1]
        parts       ["a", "b", "b", "c", "a", "a", "d"]
        is_added    [F,   F,   F,   T,   F,   F,   T]
                    ["a,b", "c", "a", "d"]         segments   [0, 0, 1, 1]

    Args:
        segments: int64 [n], ascending.
    """
    is_first = np.ones(len(segments), np.bool_)
    is_first[1:] = segments[1:] != segments[:-1]
    split = pc.split_pattern(texts, delimiter)
    parts, parents = split.flatten(), pc.list_parent_indices(split).to_numpy()
    codes = parts.dictionary_encode()
    owners = segments[parents]
    segment_codes = owners * max(1, len(codes.dictionary)) + codes.indices.to_numpy()
    is_new = np.zeros(len(parts), np.bool_)
    is_new[np.unique(segment_codes, return_index=True)[1]] = True
    has_text = pc.greater(pc.binary_length(parts), 0).to_numpy(zero_copy_only=False)
    is_added = is_new & has_text & ~is_first[parents]
    distinct_parts = pa.concat_arrays(
        [texts.filter(pa.array(is_first)), parts.filter(pa.array(is_added))]
    )
    all_owners = np.concatenate((segments[is_first], owners[is_added]))
    order = np.argsort(all_owners, kind="stable")
    return distinct_parts.take(pa.array(order)), all_owners[order]
