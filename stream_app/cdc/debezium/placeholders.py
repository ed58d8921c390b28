"""Detects Debezium's placeholder for a TOAST value that PostgreSQL did not log.

`parsed_images` and `single_decoding` call it. No placeholder reaches the table.

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
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, bools_of, lengths_of, null_where, valid_of
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family
from stream_app.cdc.rows.images import StackedImages
from stream_app.cdc.rows.row_assembly import UPDATE

_HEX = "hex:"

DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"
"""The value of `unavailable.value.placeholder` if the connector does not set it."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """All forms of the placeholder: in texts, in bytes as text, and in arrays and maps.

    Attributes:
        raw: its bytes.
        texts: its forms in a column of texts.
        binaries: its forms in a column of other types.
        json_texts: its forms as JSON text, in a column of arrays or maps.
    """

    raw: bytes
    texts: tuple[str, ...]
    binaries: tuple[str, ...]
    json_texts: frozenset[str]

    @property
    def text(self) -> str:
        """The placeholder in a column of texts."""
        return self.texts[0]

    def is_value(self, reading: ColumnReading, text: str, *, is_nested: bool) -> bool:
        """Return whether a value is the placeholder.

        Args:
            text: the characters of a string, or the JSON text of an array or object.
            is_nested: whether `text` is the JSON text of an array or object.
        """
        if is_nested:
            return text in self.json_texts
        return text in self._forms(reading)

    def is_in_column(self, reading: ColumnReading, texts: pa.Array) -> Bools | None:
        """Return the mask of the placeholders in a string or binary column; None if it has none.

        The method compares texts only where a value has the length of a form.
        """
        forms = (self.raw,) if pa.types.is_binary(texts.type) else self._forms(reading)
        lengths = lengths_of(texts)
        indices = np.flatnonzero(np.isin(lengths, sorted({_bytes_of(form) for form in forms})))
        if not len(indices):
            return None
        has_form = bools_of(pc.is_in(texts.take(pa.array(indices)), value_set=pa.array(forms)))
        if not has_form.any():
            return None
        is_placeholder: Bools = np.zeros(len(texts), np.bool_)
        is_placeholder[indices[has_form]] = True
        return is_placeholder

    def is_in_list(self, lists: pa.Array) -> Bools:
        """Return the mask of the placeholders in a column of lists: bool [n]."""
        is_placeholder: Bools = np.zeros(len(lists), np.bool_)
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        for form in self.json_texts:
            elements = json.loads(form)
            indices = np.flatnonzero(lengths == len(elements))
            if not len(indices) or not isinstance(elements, list):
                continue
            try:
                element_values = pa.array(elements, lists.type.value_type)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                continue  # a form of arrays of another type
            actual_lists = lists.take(pa.array(indices)).flatten()
            if pa.types.is_nested(actual_lists.type):
                continue
            repeated_values = element_values.take(
                pa.array(np.tile(np.arange(len(elements)), len(indices)))
            )
            is_equal = bools_of(pc.equal(actual_lists, repeated_values))
            is_placeholder[indices] |= is_equal.reshape(len(indices), -1).all(axis=1)
        return is_placeholder

    def _forms(self, reading: ColumnReading) -> tuple[str, ...]:
        is_text = reading.family in (Family.NESTED, Family.VARIANT) or (
            reading.family is Family.STRING and reading.encoding is not Encoding.BASE64
        )
        return self.texts if is_text else self.binaries


def placeholder_of(value: str = DEFAULT_PLACEHOLDER) -> Placeholder:
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
        json_texts=frozenset(
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
    columns, is_suspect = list(images.columns), images.is_suspect
    unchanged_masks: dict[str, Bools] = {}
    for index, (reading, json_kind) in enumerate(zip(readings, images.json_kinds, strict=True)):
        column = columns[index]
        if pa.types.is_list(column.type):
            is_placeholder = np.append(placeholder.is_in_list(column), False)  # for images at -1
            is_suspect = (
                is_suspect
                | is_placeholder[images.before_indices]
                | is_placeholder[images.after_indices]
            )
        if not pa.types.is_string(reading.wire_type(json_kind)) or not _is_text(column.type):
            continue
        is_placeholder_text = placeholder.is_in_column(reading, column)
        if is_placeholder_text is None:
            continue
        restored_column = _restore_column(
            images,
            column,
            is_placeholder_text,
            has_old_values=has_old_values,
            may_look_up=reading.name in restored_columns,
        )
        columns[index] = restored_column.values
        is_suspect = is_suspect | restored_column.is_remaining
        if restored_column.is_looked_up.any():
            unchanged_masks[reading.name] = restored_column.is_looked_up
    return replace(images, columns=columns, is_suspect=is_suspect, unchanged_masks=unchanged_masks)


class _RestoredColumn(NamedTuple):
    """A column of images [s], and the placeholders that it had in after-images.

    Attributes:
        values: the values of the images.
        is_looked_up: bool [n]; records whose value the table's writer looks up. It is null here.
        is_remaining: bool [n]; records that still have a placeholder.
    """

    values: pa.Array
    is_looked_up: Bools
    is_remaining: Bools


def _restore_column(
    images: StackedImages,
    column: pa.Array,
    is_placeholder: Bools,
    *,
    has_old_values: bool,
    may_look_up: bool,
) -> _RestoredColumn:
    """Replace the placeholders of one column.

    1. Those of before-images become null.
    2. Those of after-images become the values before the change, where the record has them.
    3. Those of other updates become null, if the writer may look the values up.

    Args:
        is_placeholder: bool [s].
    """
    before_rows = images.before_indices[images.has_before]
    values = _null_at(column, before_rows[is_placeholder[before_rows]])  # step 1
    is_remaining = images.has_after & is_placeholder[images.after_indices]
    if has_old_values:  # step 2
        is_copied = is_remaining & images.has_before & valid_of(values)[images.before_indices]
        image_indices = np.arange(len(values))
        image_indices[images.after_indices[is_copied]] = images.before_indices[is_copied]
        values, is_remaining = values.take(pa.array(image_indices)), is_remaining & ~is_copied
    is_looked_up = np.zeros(len(is_remaining), np.bool_)
    if may_look_up:  # step 3
        is_looked_up = is_remaining & (images.ops == UPDATE) & ~images.has_before
        values = _null_at(values, images.after_indices[is_looked_up])
    return _RestoredColumn(values, is_looked_up, is_remaining & ~is_looked_up)


def _null_at(values: pa.Array, indices: Int64s) -> pa.Array:
    """Return values [n] with null at these indices: int64 [m]."""
    if not len(indices):
        return values
    is_nulled = np.zeros(len(values), np.bool_)
    is_nulled[indices] = True
    return null_where(values, is_nulled)


def _is_text(data_type: pa.DataType) -> bool:
    """Return whether values are still text or bytes; a compiled decoder already has decimals."""
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


def is_placeholder_property(value: str) -> bool:
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
