"""``listagg``: texts in a row, with a delimiter between them.

Source: Paimon `mergetree/compact/aggregate/FieldListaggAgg.java`,
`utils/BinaryStringUtils.java#splitByWholeSeparatorPreserveAllTokens`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.key_value_batch import Indices
from stream_app.mergetree.merge_engines.aggregates.combined_values import counted
from stream_app.mergetree.merge_engines.aggregates.steps import Folded, Steps
from stream_app.mergetree.merge_engines.ordered_values import text_lengths
from stream_app.model.schema.merge_rules import ColumnAggregate


def joined_texts(column: pa.Array, steps: Steps, how: ColumnAggregate) -> Folded:
    """The texts that are not empty, in order; a late text stands before the others."""
    steps.refuse_take_back("listagg")

    valid = counted(column, steps)
    full = valid & (text_lengths(column) > 0)[steps.rows]
    places, sizes = steps.in_order(full), steps.sums(full.astype(np.int64))
    texts = column.take(pa.array(steps.rows[places]))
    if how.distinct:
        segments = np.repeat(np.arange(len(sizes)), sizes)
        texts, segments = _distinct(texts, segments, how.delimiter)
        sizes = np.bincount(segments, minlength=len(sizes))
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    # With none but empty texts the result is empty, and without any it is null.
    lacks = sizes == 0
    if full.sum() != valid.sum():
        lacks &= ~steps.any(valid)
    lists = pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), texts, mask=pa.array(lacks))
    return pc.binary_join(lists, pa.scalar(how.delimiter, column.type))


def _distinct(texts: pa.Array, segments: Indices, delimiter: str) -> tuple[pa.Array, Indices]:
    """The first text of each segment as it is, then each new part of the others once."""
    is_first = np.ones(len(segments), np.bool_)
    is_first[1:] = segments[1:] != segments[:-1]
    split = pc.split_pattern(texts, delimiter)
    parts, parents = split.flatten(), pc.list_parent_indices(split).to_numpy()
    codes = parts.dictionary_encode()
    owners = segments[parents]
    numbered = owners * max(1, len(codes.dictionary)) + codes.indices.to_numpy()
    is_new = np.zeros(len(parts), np.bool_)
    is_new[np.unique(numbered, return_index=True)[1]] = True
    is_full = pc.greater(pc.binary_length(parts), 0).to_numpy(zero_copy_only=False)
    kept = is_new & is_full & ~is_first[parents]
    found = pa.concat_arrays([texts.filter(pa.array(is_first)), parts.filter(pa.array(kept))])
    all_owners = np.concatenate((segments[is_first], owners[kept]))
    order = np.argsort(all_owners, kind="stable")
    return found.take(pa.array(order)), all_owners[order]
