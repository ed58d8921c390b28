"""Converts JSON texts into a VARIANT column, by machine code if the extra `compiled` is installed.

Both ways give the same bytes. Without machine code Python parses each text, which is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, any_of, valid_of
from stream_app.machine_code.loaded_code import loaded_code
from stream_app.variants.json_documents import parse_json
from stream_app.variants.layout import METADATA, VALUE, VARIANT_TYPE

if TYPE_CHECKING:
    from stream_app.variants.compiled.encoded_documents import EncodedPart

_MODULE = "stream_app.variants.compiled.encoded_documents"


def variants_of(
    texts: pa.Array, *, uses_machine_code: bool = True
) -> tuple[pa.Array, Bools | None]:
    """Return the documents as VARIANTs, and the mask of the texts that are not documents.

    Args:
        texts: string [n].
        uses_machine_code: whether machine code may encode them.

    Returns:
        `VARIANT_TYPE` [n], and bool [n], or None if each text is a document.
    """
    code, _ = loaded_code(_MODULE) if uses_machine_code else (None, "")
    encode = _encode_one_by_one if code is None else code.encode_documents
    parts = list(encode(texts.fill_null("") if texts.null_count else texts))
    columns = [
        pa.concat_arrays([pa.array([], pa.binary()), *(part[index] for part in parts)])
        for index, _ in enumerate((VALUE, METADATA))
    ]
    is_valid = valid_of(texts)
    has_failed = np.concatenate([np.zeros(0, np.bool_), *(part[2] for part in parts)]) & is_valid
    mask = pa.array(has_failed | ~is_valid)
    values = pa.StructArray.from_arrays(columns, fields=list(VARIANT_TYPE), mask=mask)
    return values, any_of(has_failed)


def _encode_one_by_one(texts: pa.Array) -> Iterator[EncodedPart]:
    has_failed: Bools = np.zeros(len(texts), np.bool_)
    values, metadata = [b""] * len(texts), [b""] * len(texts)
    for row_index, text in enumerate(texts.to_pylist()):
        try:
            values[row_index], metadata[row_index] = parse_json(text)
        except ValueError:
            has_failed[row_index] = True
    yield pa.array(values, pa.binary()), pa.array(metadata, pa.binary()), has_failed
