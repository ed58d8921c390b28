"""Detects Debezium's placeholder for a TOAST value that PostgreSQL did not log.

`parsed_images` and `decode_one_by_one` call it. No placeholder reaches the table.

Source: Debezium `connector/postgresql/UnchangedToastedPlaceholder.java` and the property
`unavailable.value.placeholder`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of, lengths_of, null_where, valid_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family
from stream_app.cdc.rows.images import StackedImages
from stream_app.cdc.rows.row_assembly import UPDATE

_HEX = "hex:"

PLACEHOLDER = "__debezium_unavailable_value"
"""The connector's default."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """All forms of the placeholder: in texts, in bytes as text, and in arrays and maps.

    Attributes:
        raw: its bytes.
        texts: its forms in a column of texts.
        binaries: its forms in a column of other types.
        nested: its forms as JSON text, in a column of arrays or maps.
    """

    raw: bytes
    texts: tuple[str, ...]
    binaries: tuple[str, ...]
    nested: frozenset[str]

    @property
    def text(self) -> str:
        """The placeholder in a column of texts."""
        return self.texts[0]

    def is_value(self, reading: ColumnReading, text: str, *, nested: bool) -> bool:
        """Return whether a value is the placeholder.

        Args:
            text: the characters of a string, or the JSON text of an array or object.
            nested: whether `text` is the JSON text of an array or object.
        """
        if nested:
            return text in self.nested
        return text in self._forms(reading)

    def in_column(self, reading: ColumnReading, texts: pa.Array) -> Bools | None:
        """Return the mask of the placeholders in a string or binary column; None if it has none.

        The method compares texts only where a value has the length of a form.
        """
        forms = (self.raw,) if pa.types.is_binary(texts.type) else self._forms(reading)
        lengths = lengths_of(texts)
        may_be_form = np.isin(lengths, sorted({_bytes_of(form) for form in forms}))
        if not may_be_form.any():
            return None
        rows = np.flatnonzero(may_be_form)
        is_form = bools_of(pc.is_in(texts.take(pa.array(rows)), value_set=pa.array(forms)))
        if not is_form.any():
            return None
        is_stand_in: Bools = np.zeros(len(texts), np.bool_)
        is_stand_in[rows[is_form]] = True
        return is_stand_in

    def in_lists(self, lists: pa.Array) -> Bools:
        """Return the mask of the placeholders in a column of lists: bool [n]."""
        is_form: Bools = np.zeros(len(lists), np.bool_)
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        for form in self.nested:
            elements = json.loads(form)
            rows = np.flatnonzero(lengths == len(elements))
            if not len(rows) or not isinstance(elements, list):
                continue
            try:
                element_values = pa.array(elements, lists.type.value_type)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                continue  # a form of arrays of another type
            actual = lists.take(pa.array(rows)).flatten()
            if pa.types.is_nested(actual.type):
                continue
            repeated = element_values.take(pa.array(np.tile(np.arange(len(elements)), len(rows))))
            is_equal = bools_of(pc.equal(actual, repeated))
            is_form[rows] |= is_equal.reshape(len(rows), -1).all(axis=1)
        return is_form

    def _forms(self, reading: ColumnReading) -> tuple[str, ...]:
        is_text = reading.family in (Family.NESTED, Family.VARIANT) or (
            reading.family is Family.STRING and reading.encoding is not Encoding.BASE64
        )
        return self.texts if is_text else self.binaries


def placeholder_of(value: str = PLACEHOLDER) -> Placeholder:
    """Return the forms of a connector's ``unavailable.value.placeholder``.

    Args:
        value: the value of the property; behind ``hex:`` the bytes of the placeholder.
    """
    raw = _raw_bytes(value)
    text = raw.decode(errors="replace")
    base64_text = base64.b64encode(raw).decode()
    md5 = hashlib.md5(raw, usedforsecurity=False).digest()
    hstore = _compact({text: text})
    return Placeholder(
        raw=raw,
        texts=(text, hstore),
        binaries=(text, base64_text, raw.hex(), raw.hex().upper()),
        nested=frozenset(
            {
                hstore,
                _compact([text]),
                _compact([base64_text]),
                _compact([str(uuid.UUID(bytes=md5, version=3))]),
                _compact(list(raw)),
                _compact([float(byte) for byte in raw]),
            }
        ),
    )


def restore_images(
    images: StackedImages,
    readings: Sequence[ColumnReading],
    placeholder: Placeholder,
    *,
    restored_columns: frozenset[str],
    has_old_values: bool,
) -> StackedImages:
    """Replace placeholders in after-images by the values of before-images.

    If the before-image is missing, the table's writer looks up the value where that is allowed.
    Other records are suspects.

    Args:
        restored_columns: columns that the writer may look up; see `TableTraits.restored_columns`.
        has_old_values: whether images before the change hold more than the key.
    """
    columns, suspects = list(images.columns), images.suspects
    lacks_before = (images.ops == UPDATE) & ~images.has_before
    omitted: dict[str, Bools] = {}
    for index, (reading, kind) in enumerate(zip(readings, images.json_kinds, strict=True)):
        if pa.types.is_list(columns[index].type):
            is_form = np.append(placeholder.in_lists(columns[index]), False)  # for images at -1
            suspects = suspects | is_form[images.before_at] | is_form[images.after_at]
        if not pa.types.is_string(reading.wire_type(kind)) or not _is_text(columns[index].type):
            continue
        is_stand_in = placeholder.in_column(reading, columns[index])
        if is_stand_in is None:
            continue
        is_nulled = np.zeros(len(is_stand_in), np.bool_)
        before_rows = images.before_at[images.has_before]
        is_nulled[before_rows] = is_stand_in[before_rows]
        column = null_where(columns[index], is_nulled)
        is_unchanged = images.has_after & is_stand_in[images.after_at]
        if has_old_values:
            is_restored = is_unchanged & images.has_before & valid_of(column)[images.before_at]
            image_positions = np.arange(len(column))
            image_positions[images.after_at[is_restored]] = images.before_at[is_restored]
            column, is_unchanged = (
                column.take(pa.array(image_positions)),
                is_unchanged & ~is_restored,
            )
        if reading.name in restored_columns and (is_unchanged & lacks_before).any():
            is_looked_up = is_unchanged & lacks_before
            is_nulled = np.zeros(len(column), np.bool_)
            is_nulled[images.after_at[is_looked_up]] = True
            column, is_unchanged = null_where(column, is_nulled), is_unchanged & ~is_looked_up
            omitted[reading.name] = is_looked_up
        suspects = suspects | is_unchanged
        columns[index] = column
    return replace(images, columns=columns, suspects=suspects, unchanged=omitted)


def _is_text(data_type: pa.DataType) -> bool:
    """Return whether values are still text or bytes; a compiled decoder already has decimals."""
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


def is_placeholder(value: str) -> bool:
    """Return whether a property has a value from which a placeholder can be made."""
    try:
        return bool(_raw_bytes(value))
    except ValueError:
        return False


def _raw_bytes(value: str) -> bytes:
    return bytes.fromhex(value.removeprefix(_HEX)) if value.startswith(_HEX) else value.encode()


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _bytes_of(form: str | bytes) -> int:
    return len(form.encode() if isinstance(form, str) else form)
