"""Debezium's stand-in for a TOAST value that PostgreSQL did not log: "unchanged", not a value.

Used by `debezium_json`; the stand-in is never written.

Source: Debezium `connector/postgresql/UnchangedToastedPlaceholder.java` and the property
`unavailable.value.placeholder`, whose default is taken.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.columns.arrow_buffers import Bools, bools_of, lengths_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family

PLACEHOLDER = "__debezium_unavailable_value"

_RAW = PLACEHOLDER.encode()
_BASE64 = base64.b64encode(_RAW).decode()
_UUID = str(uuid.UUID(bytes=hashlib.md5(_RAW, usedforsecurity=False).digest(), version=3))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


_HSTORE = _compact({PLACEHOLDER: PLACEHOLDER})
_TEXTS = (PLACEHOLDER, _HSTORE)
_BINARIES = (PLACEHOLDER, _BASE64, _RAW.hex(), _RAW.hex().upper())
_NESTED = frozenset(
    {
        _HSTORE,
        _compact([PLACEHOLDER]),
        _compact([_BASE64]),
        _compact([_UUID]),
        _compact(list(_RAW)),
        _compact([float(byte) for byte in _RAW]),
    }
)


def is_placeholder(reading: ColumnReading, text: str, *, nested: bool) -> bool:
    """Whether one value is the placeholder.

    Args:
        text: the characters of a string, or the JSON text of an array or object.
        nested: `text` is that of an array or object.
    """
    if nested:
        return text in _NESTED
    return text in _forms(reading)


def placeholders_in(reading: ColumnReading, texts: pa.Array) -> Bools | None:
    """Where a string or binary column is the placeholder; None: nowhere.

    Costs a look at the lengths.
    """
    forms = (_RAW,) if pa.types.is_binary(texts.type) else _forms(reading)
    lengths = lengths_of(texts)
    suspect = np.isin(lengths, sorted({len(form) for form in forms}))
    if not suspect.any():
        return None
    rows = np.flatnonzero(suspect)
    found = bools_of(pc.is_in(texts.take(pa.array(rows)), value_set=pa.array(forms)))
    if not found.any():
        return None
    result: Bools = np.zeros(len(texts), np.bool_)
    result[rows[found]] = True
    return result


def _forms(reading: ColumnReading) -> tuple[str, ...]:
    is_text = reading.family is Family.STRING and reading.encoding is not Encoding.BASE64
    return _TEXTS if is_text else _BINARIES
