"""Chooses the type of columns for documents: a source's ``json`` and ``jsonb``."""

from __future__ import annotations

from stream_app.model.schema.data_type import STRING, VARIANT, DataType
from stream_app.model.source.mapping_options import JsonColumns, MappingOptions


def document_type(options: MappingOptions) -> DataType:
    """Return STRING, or VARIANT where ``json-as`` asks for it."""
    return VARIANT if options.json_columns is JsonColumns.VARIANT else STRING
