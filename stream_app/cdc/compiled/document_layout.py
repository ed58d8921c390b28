"""Rewrites messages of MongoDB as messages of a relational table, by machine code.

`debezium-bson` tries it before its slower ways. A rewritten message means what they read from the
original. It declines some messages, which they then read, and it never raises.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, bytes_of, offsets_of
from stream_app.cdc.compiled.column_names import NO_COLUMN
from stream_app.cdc.compiled.document_rewriter import (
    PIECES,
    RewriteMemory,
    RewrittenPositions,
    rewrite_messages,
)
from stream_app.cdc.compiled.document_values import (
    BOOLEANS,
    IDS,
    NULLS,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
)
from stream_app.cdc.compiled.image_cells import ImageCells
from stream_app.cdc.compiled.parser_input import PackedNames, end_messages, plain_names

_EXTRA_SIZE_MAX = 128
"""Bytes that a message may gain: the names of its fields, and words that are copied beyond."""
_OUTPUT_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class DocumentLayout:
    """The documents of a table.

    Attributes:
        column_indices: int64 [e]; the index of each name's typed column, or `NO_COLUMN`.
        kinds: int64 [c]; a bit for each form of values that a typed column takes.
    """

    names: PackedNames
    column_indices: Int64s
    kinds: Int64s
    FORMS: ClassVar[Mapping[str, int]] = {
        "null": NULLS,
        "boolean": BOOLEANS,
        "text": TEXTS,
        "number": NUMBERS,
        "timestamp": TIMESTAMPS,
        "id": IDS,
    }
    """The forms of values by name; others are declined."""

    @classmethod
    def for_columns(cls, forms: Mapping[str, Collection[str]], order: Sequence[str]) -> Self | None:
        """Return the layout of a table, or None if machine code can find none of its names.

        Args:
            forms: name of a column → those of `FORMS` that have a meaning in the column, for
                columns in which some have none.
            order: names of a document, in its order.
        """
        names = plain_names([*order, *forms])
        if not names or len(plain_names(forms)) < len(forms):
            return None
        index_by_name = {name: index for index, name in enumerate(forms)}
        return cls(
            PackedNames.of(names),
            np.array([index_by_name.get(name, NO_COLUMN) for name in names], np.int64),
            np.array(
                [
                    sum(1 << cls.FORMS[form] for form in column_forms)
                    for column_forms in forms.values()
                ],
                np.int64,
            ),
        )

    @classmethod
    def compile(cls) -> None:
        """Compile or load all machine code, so that the first messages need not wait for it."""
        layout = cls.for_columns({}, ["name"])
        assert layout is not None
        layout.rewrite(pa.array([b"{}"], pa.binary()))

    def rewrite(self, messages: pa.Array) -> tuple[pa.Array, Bools] | None:
        """Return the rewritten messages, binary [m], and their mask, bool [n]; or None.

        It returns None without messages, or if the output would be too large.

        Args:
            messages: binary [n] without nulls.
        """
        offsets = offsets_of(messages).astype(np.int64)
        count = len(messages)
        size = int(offsets[-1] - offsets[0]) + _EXTRA_SIZE_MAX * (count + 1)
        if not count or size > _OUTPUT_BYTES_MAX:
            return None
        ended_messages = end_messages(bytes_of(messages), offsets)
        output = np.empty(size, np.uint8)
        scratch = np.empty(int(np.diff(offsets).max()) + _EXTRA_SIZE_MAX, np.uint8)
        pieces = np.frombuffer(PIECES, np.uint8)
        cells = ImageCells.for_columns(len(self.kinds), 0)  # documents need no cells and no scales
        scales = np.zeros_like(self.kinds)
        lengths, is_rewritten = np.zeros(count, np.int64), np.empty(count, np.bool_)
        rows = rewrite_messages(
            RewrittenPositions(ended_messages.starts, ended_messages.ends, lengths, is_rewritten),
            cells.buffers(self.names, self.column_indices, self.kinds, scales),
            RewriteMemory(output.ctypes.data, scratch.ctypes.data, pieces.ctypes.data),
        )
        bounds = np.zeros(rows + 1, np.int32)
        np.cumsum(lengths[:rows], out=bounds[1:])
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(output)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers), is_rewritten
