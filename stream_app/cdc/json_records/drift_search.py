"""Finds records with unknown or missing columns by a scan of their bytes.

The formats call it for records that were parsed in columns, because the parser does not report the
fields that it left out. It reads a few records in full, and compares the other records with them:

1. Records are grouped by op and images. One pass over the bytes counts all fields. If every record
   has as many as the first one of its group, the count is the one that the first ones predict.
2. If not, records are also grouped by their number of fields.
3. The first and the last record of each group are read in full, and of each column the first and
   the last that has null. If these differ, every record of the group is read.

So a record passes unnoticed only if three conditions hold. It has as many fields as the others. It
is neither first nor last. Every column that it lacks is null in records before and after it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int64s, own_bytes, valid_of
from stream_app.cdc.column_drift import NO_DRIFT, Drift, DriftedColumn, Sighting, add_sighting
from stream_app.cdc.columns.byte_patterns import masks_of_word
from stream_app.cdc.json_message import quick_document
from stream_app.cdc.json_records.dialect import DocumentImages, ImagesOf, ParsedRecords

_GROUPS_MAX = 64
"""The most groups of which a record each is read; `drift_in` searches more groups faster."""

Classes = npt.NDArray[np.uint8]

NO_CLASS = 0
"""Marks a record that is not searched."""
_WITH_BEFORE = np.uint8(0x80)
"""The bit for a before-image, beside a record's op, which is a letter of ASCII."""
_NAME_END, _ESCAPED_END = b'":', b'\\":'
_QUOTE, _COLON, _BACKSLASH = b'":\\'


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRecords:
    """The n records to search.

    Attributes:
        values: JSON objects as binary [n], without nulls.
        named_parts: binary [n]; the values, or the parts of them whose names may differ.
        classes: [n]; records of one class are expected to have the same fields.
        null_rows: the result of `first_and_last_nulls` for the after-images.
        inner_names: int64 [n]; the number of names inside the values of each record's table
            columns.
    """

    values: pa.Array
    named_parts: pa.Array
    classes: Classes
    null_rows: Collection[int]
    inner_names: Int64s


def classes_of(ops: Classes, has_before: Bools) -> Classes:
    """Return the class of each record: by its op and images, which decide its fields."""
    return np.where(has_before, ops | _WITH_BEFORE, ops)


def records_to_search(
    values: pa.Array, parsed_records: ParsedRecords, is_suspect: Bools
) -> SearchedRecords:
    """Return messages of a dialect without the suspects, each with the class of its first record.

    Args:
        values: binary [n] without nulls.
        is_suspect: bool [n].
    """
    images, message_indices = parsed_records.images, parsed_records.message_indices
    record_classes = classes_of(images.ops, images.has_before)
    after_indices = np.where(images.has_after, np.arange(len(images.ops)), -1)
    null_rows = first_and_last_nulls(images.after, after_indices)
    if message_indices is None:
        classes = record_classes
    else:
        classes = np.zeros(len(values), np.uint8)
        classes[message_indices[::-1]] = record_classes[::-1]
        null_rows = {int(message_indices[message_index]) for message_index in null_rows}
    classes[is_suspect] = NO_CLASS
    return SearchedRecords(
        values=values,
        named_parts=values,
        classes=classes,
        null_rows=[
            message_index for message_index in null_rows if classes[message_index] != NO_CLASS
        ],
        inner_names=np.zeros(len(values), np.int64),
    )


def drift_in(
    searched_records: SearchedRecords, *, columns: frozenset[str], images_of: ImagesOf
) -> dict[DriftedColumn, Sighting]:
    """Return the unknown and missing columns of records, with the indices of the first ones."""
    sightings: dict[DriftedColumn, Sighting] = {}

    @functools.cache
    def read_drift(message_index: int) -> tuple[Drift, bool]:
        """Read a record in full. Return its drift, and whether its bytes show all names.

        A blank after a name hides the name from a search of the bytes.
        """
        value: bytes = searched_records.values[message_index].as_py()
        images = _images_in(value, images_of)
        if images is None:
            return NO_DRIFT, True
        # A quote before a colon ends a name; in a text it is escaped.
        names = value.count(_NAME_END) - value.count(_ESCAPED_END)
        return images.drift(columns), names >= images.name_count

    classes = searched_records.classes
    named_parts = searched_records.named_parts
    inner_names = searched_records.inner_names
    groups: Int64s = classes.astype(np.int64)
    if not _has_expected_names(named_parts, classes, inner_names):
        groups |= (_name_counts(named_parts) - inner_names) % 256 << 8
    rows_by_group = _rows_by_group(groups, classes)
    mixed_groups = {
        int(groups[message_index])
        for message_index in searched_records.null_rows
        if read_drift(message_index)[0]
        != read_drift(int(rows_by_group[int(groups[message_index])][0]))[0]
    }
    for group, rows in rows_by_group.items():
        first_index, last_index = int(rows[0]), int(rows[-1])
        drift, is_countable = read_drift(first_index)
        if group not in mixed_groups and is_countable and drift == read_drift(last_index)[0]:
            add_sighting(sightings, drift, Sighting(len(rows), first_index))
            continue
        for message_index in rows.tolist():
            add_sighting(sightings, read_drift(message_index)[0], Sighting(1, message_index))
    return sightings


def drift_by_hashes(
    searched_records: SearchedRecords,
    drift_hashes: Int64s,
    *,
    columns: frozenset[str],
    images_of: ImagesOf,
) -> dict[DriftedColumn, Sighting]:
    """Return the drift of records, as `drift_in` does, by the drift hashes of machine code.

    Args:
        drift_hashes: int64 [n]; records of a class with the same hash have the same names.
    """
    sightings: dict[DriftedColumn, Sighting] = {}
    groups = [
        (int(rows[first_index]), int(count))
        for rows in _rows_by_group(
            searched_records.classes.astype(np.int64), searched_records.classes
        ).values()
        for first_index, count in zip(*_firsts_and_counts(drift_hashes[rows]), strict=True)
    ]
    if len(groups) > _GROUPS_MAX:  # such as of images that lack other columns each
        return drift_in(searched_records, columns=columns, images_of=images_of)
    for message_index, count in groups:
        images = _images_in(searched_records.values[message_index].as_py(), images_of)
        if images is not None:
            add_sighting(sightings, images.drift(columns), Sighting(count, message_index))
    return sightings


def _images_in(value: bytes, images_of: ImagesOf) -> DocumentImages | None:
    document = quick_document(value)
    return images_of(document) if isinstance(document, dict) else None


def _firsts_and_counts(drift_hashes: Int64s) -> tuple[Int64s, Int64s]:
    if (drift_hashes == drift_hashes[0]).all():
        return np.zeros(1, np.int64), np.array([len(drift_hashes)])
    _, firsts, counts = np.unique(drift_hashes, return_index=True, return_counts=True)
    return firsts, counts


def _has_expected_names(named_parts: pa.Array, classes: Classes, inner_names: Int64s) -> bool:
    """Return whether the values have as many names as the first of each class predicts."""
    counts = np.bincount(classes, minlength=256)
    expected_end_count = int(inner_names[classes != NO_CLASS].sum())
    escaped_end_count = 0
    for class_number in np.flatnonzero(counts[1:]) + 1:
        first_index = int(np.argmax(classes == class_number))
        value = named_parts[first_index].as_py()
        expected_end_count += int(counts[class_number]) * (
            value.count(_NAME_END) - int(inner_names[first_index])
        )
        escaped_end_count += int(counts[class_number]) * value.count(_ESCAPED_END)
    data, _ = own_bytes(named_parts)
    pair_count = _pairs_in(data, _NAME_END)
    if counts[NO_CLASS]:
        unclassified_bytes, _ = own_bytes(named_parts.filter(pa.array(classes == NO_CLASS)))
        pair_count -= _pairs_in(unclassified_bytes, _NAME_END)
        escaped_end_count += _escaped_in(unclassified_bytes)
    # Escaped bytes are parts of texts and may vary, so they need separate passes.
    return (
        pair_count == expected_end_count
        or pair_count - _escaped_in(data) == expected_end_count - escaped_end_count
    )


def _pairs_in(data: Bytes, pair: bytes) -> int:
    """Count pairs of bytes by comparing words, in parts that fit the cache."""
    return sum(int(np.count_nonzero(is_pair)) for _, is_pair in masks_of_word(data, pair))


def _escaped_in(data: Bytes) -> int:
    escaped_count = 0
    for start, is_start in masks_of_word(data, _ESCAPED_END[:2]):
        colon_positions = start + 2 * np.flatnonzero(is_start) + 2
        escaped_count += int(np.count_nonzero(data.take(colon_positions, mode="clip") == _COLON))
    return escaped_count


def _name_counts(values: pa.Array) -> Classes:
    """Count the names in each value, modulo 256; a record without images has no bytes."""
    data, offsets = own_bytes(values)
    ends_name: Bools = np.zeros(len(data) + 1, np.bool_)
    np.logical_and(data[:-1] == _QUOTE, data[1:] == _COLON, out=ends_name[:-2])
    ends_name[1:-1] &= data[:-1] != _BACKSLASH
    counts = np.add.reduceat(ends_name.view(np.uint8), offsets[:-1], dtype=np.uint8)
    counts[offsets[1:] == offsets[:-1]] = 0
    return counts


def _rows_by_group(groups: Int64s, classes: Classes) -> dict[int, Int64s]:
    """Return the rows of each class of records that are searched, in their order."""
    order = np.argsort(groups if groups.max(initial=0) > 255 else classes, kind="stable")
    order = order[classes[order] != NO_CLASS]
    if not len(order):
        return {}
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    return {int(groups[rows[0]]): rows for rows in np.split(order, starts)}


def first_and_last_nulls(images: Sequence[pa.Array], image_indices: Int64s) -> set[int]:
    """Return the first and the last record in which each column is null or missing.

    Args:
        images: each of the table's columns in images.
        image_indices: int64 [n]; the index of each record's image; -1 without one, or if the
            record is not searched.
    """
    rows: set[int] = set()
    is_searched = image_indices >= 0
    for column in images:
        if column.null_count == 0:
            continue
        is_null = is_searched & ~valid_of(column)[image_indices]
        first_index = int(np.argmax(is_null))
        if is_null[first_index]:
            rows |= {first_index, len(is_null) - 1 - int(np.argmax(is_null[::-1]))}
    return rows
