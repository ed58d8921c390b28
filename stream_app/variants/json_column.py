"""Texts of JSON → a column of VARIANT."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, valid_of
from stream_app.variants.json_documents import parse_json
from stream_app.variants.layout import VARIANT_TYPE

_NOTHING = (b"", b"")


def variants_of(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
    """The documents as VARIANTs, null where a text is null or no document, and where it is none.

    Args:
        texts: string [n].

    Returns:
        `VARIANT_TYPE` [n], and bool [n] or None if each text is a document.
    """
    failed: Bools = np.zeros(len(texts), np.bool_)
    pairs = [_NOTHING] * len(texts)
    for row, text in enumerate(texts.to_pylist()):
        if text is not None:
            try:
                pairs[row] = parse_json(text)
            except ValueError:
                failed[row] = True
    members = [pa.array(parts, pa.binary()) for parts in zip(*pairs, strict=True)]
    mask = pa.array(failed | ~valid_of(texts))
    columns = members or [pa.array([], pa.binary())] * 2
    values = pa.StructArray.from_arrays(columns, fields=list(VARIANT_TYPE), mask=mask)
    return values, failed if failed.any() else None
