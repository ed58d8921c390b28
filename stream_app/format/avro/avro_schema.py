"""Pieces of the Avro schemas of manifests.

Paimon's Java readers take branch 0 of a union for null without looking, and know records by the
names that its own converter gives them.

Source: Paimon `format/avro/AvroSchemaConverter.java`.
"""

from __future__ import annotations

AvroField = dict[str, object]


def required(name: str, avro_type: object) -> AvroField:
    """A field that is never null."""
    return {"name": name, "type": avro_type}


def optional(name: str, avro_type: object) -> AvroField:
    """A field that may be null."""
    return {"name": name, "type": ["null", avro_type], "default": None}


def manifest_schema(fields: list[AvroField]) -> dict[str, object]:
    """The schema of a file with such records."""
    namespace = "org.apache.paimon.avro.generated"
    return {"type": "record", "name": "record", "namespace": namespace, "fields": fields}
