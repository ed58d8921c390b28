"""Decides whether the commits of a table can keep a checksum of its rows up to date.

A commit knows the added and removed rows if the table has a changelog, or if rows are only added.
The sums are over the texts of `format.row_hash.row_texts`.
"""

from __future__ import annotations

from stream_app.model.options.compaction_options import RECORD_LEVEL_EXPIRE_TIME
from stream_app.model.options.merge_options import (
    CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
)
from stream_app.model.options.write_options import ROW_CHECKSUM
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.merge_engine import DEDUPLICATE

MICROSECONDS = 6
"""The precision of a timestamp up to which its text counts microseconds."""
NOT_ASKED = f"'{ROW_CHECKSUM.key}' is not set"


def why_unsummed(schema: TableSchema) -> str:
    """Return the reason why commits carry no checksum; empty if they do."""
    if not schema.core_options[ROW_CHECKSUM]:
        return NOT_ASKED
    return _why_unsummable(schema)


def _why_unsummable(schema: TableSchema) -> str:
    """Return the reason why the table cannot have a checksum; empty if it can."""
    options = schema.core_options
    textless_field = next((field for field in schema.fields if not has_text(field.data_type)), None)
    if textless_field is not None:
        return (
            f"column {textless_field.name!r} has no canonical text, as {textless_field.data_type}"
        )
    if options[RECORD_LEVEL_EXPIRE_TIME] is not None:
        return "its rows expire, which no changelog records"
    if not schema.kind_traits.merges_by_key:
        return ""
    if not options.writes_changelog:
        return "without a changelog its writers do not read the older rows"
    if schema.kind_traits.postpones:
        return "its rows wait in bucket-postpone"
    if options.columns(CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS):
        return f"'{CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS.key}' keeps changes from the changelog"
    return _why_input_differs(schema) if options.flushes_changelog else ""


def _why_input_differs(schema: TableSchema) -> str:
    """Return the reason why the input's changes are not the rows' changes; empty without one."""
    options = schema.core_options
    if options.merge_engine != DEDUPLICATE:
        return f"changes of the input are merged by merge-engine = {options.merge_engine}"
    if schema.sequence_fields:
        return "'sequence.field' may leave out changes of the input"
    if options[IGNORE_DELETE] or options[IGNORE_UPDATE_BEFORE]:
        return "its writers ignore changes of the input"
    if schema.kind_traits.crosses_partitions or schema.kind_traits.looks_up_partition:
        return "changes of the input may move rows between partitions"
    return ""


def have_same_texts(older_schema: TableSchema, newer_schema: TableSchema) -> bool:
    """Return whether each row has the same text by both schemas."""
    if older_schema.schema_id == newer_schema.schema_id:
        return True
    pairs = list(zip(older_schema.fields, newer_schema.fields, strict=False))
    return len(pairs) == len(older_schema.fields) and all(
        older_column.field_id == newer_column.field_id
        and text_kind(older_column.data_type) == text_kind(newer_column.data_type)
        for older_column, newer_column in pairs
    )


def has_text(data_type: DataType) -> bool:
    """Return whether values of a type have a canonical text: scalars, and arrays of such values.

    The text of bytes has no length. So an array of one empty value would have the text of `[]`.
    """
    if data_type.root is TypeRoot.ARRAY:
        return all(has_text(inner) and inner.root not in BINARY_ROOTS for inner in data_type.inner)
    return not data_type.is_nested


def text_kind(data_type: DataType) -> object:
    """Return the kind of a type's texts; types of equal kinds have equal texts."""
    if data_type.root is TypeRoot.ARRAY:
        return data_type.root, *map(text_kind, data_type.inner)
    for roots in (INTEGER_ROOTS, STRING_ROOTS, BINARY_ROOTS):
        if data_type.root in roots:
            return roots
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.root, data_type.scale
    if data_type.root in TIMESTAMP_ROOTS:
        return TIMESTAMP_ROOTS, data_type.precision > MICROSECONDS
    return data_type.root
