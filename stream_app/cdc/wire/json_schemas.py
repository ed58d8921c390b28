"""Describes the columns of a JSON Schema as Kafka Connect would, and follows its references.

Connect's own converter writes its types into a schema (``connect.type``, ``title``). Other schemas
have JSON's types, and formats of texts. Each process describes a schema once.

Source: Confluent's `JsonSchemaData.java`; JSON Schema, drafts 4 to 2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import RegisteredSchema, SchemaKind, Schemas
from stream_app.cdc.source_types.connect import CONNECT, TIME

_TYPES = {"integer": "int64", "number": "float64", "boolean": "boolean", "string": "string"}
_FORMATS = {"date": "IsoDate", "date-time": "ZonedTimestamp", "time": "ZonedTime"}
_SEMANTICS = (CONNECT, "io.debezium.")
_CHOICES = ("oneOf", "anyOf", "allOf")
_LINKS_MAX = 64
"""The most references and choices that are followed from one field."""
_SHOWN_LENGTH_MAX = 160
_IMAGES = frozenset(["before", "after"])


def connect_struct(schemas: Schemas, schema_number: int) -> Mapping[str, Any]:
    """Return the schema of a number in Connect's form; fields of fields only in Debezium's images.

    Args:
        schema_number: -1 stands for messages that are not in the wire format.

    Raises:
        UnreadableRecordError: the registry has no schema of this number.
        SourceError: no registry answers.
    """
    registered_schema = schemas.schema(schema_number)
    registered_schema.check(SchemaKind.JSON)
    struct = _struct_or_problem(registered_schema)
    if isinstance(struct, str):
        raise UnreadableRecordError(struct)
    return struct


@lru_cache(maxsize=256)
def _struct_or_problem(registered_schema: RegisteredSchema) -> Mapping[str, Any] | str:
    try:
        documents = {name: json.loads(text) for name, text in registered_schema.references}
        root = _SchemaNode(json.loads(registered_schema.text), documents)
        return {"type": "struct", "fields": [*_fields(root, 1)]}
    except RecursionError:
        problem = "it nests too deeply"
    except (ValueError, KeyError, TypeError, AttributeError, LookupError) as error:
        problem = f"{type(error).__name__}: {error}"
    return f"has a schema that is not JSON Schema: {problem}"[:_SHOWN_LENGTH_MAX]


@dataclass(frozen=True, slots=True)
class _SchemaNode:
    """A schema within a document.

    Attributes:
        document: the document in which local references are searched.
        documents: the documents to which it may refer, by name.
        node: the schema itself; None for the whole document.
    """

    document: Any
    documents: Mapping[str, Any]
    node: Any = None

    @property
    def schema(self) -> Any:
        """The schema at this place."""
        return self.document if self.node is None else self.node

    def with_node(self, node: Any) -> _SchemaNode:
        """Return a schema in the same document."""
        return _SchemaNode(self.document, self.documents, node)

    def resolve(self) -> tuple[_SchemaNode, bool]:
        """Return the schema behind references, and whether a choice allows null."""
        node = self
        nullable = False
        for _ in range(_LINKS_MAX):
            schema = node.schema
            if schema is True:
                return node.with_node({}), True
            if "$ref" in schema:
                node = node._resolve_reference(str(schema["$ref"]))
                continue
            choices = next((schema[word] for word in _CHOICES if word in schema), None)
            if choices is None or "type" in schema or "properties" in schema:
                return node, nullable
            non_null_choices = [choice for choice in choices if not _is_null(choice)]
            nullable |= len(non_null_choices) < len(choices)
            if len(non_null_choices) != 1:
                return node.with_node({}), nullable
            node = node.with_node(non_null_choices[0])
        raise ValueError("its references have no end")

    def _resolve_reference(self, reference: str) -> _SchemaNode:
        name, _, pointer = reference.partition("#")
        document = self.documents[name] if name else self.document
        node = document
        for step in filter(None, pointer.split("/")):
            node = node[step.replace("~1", "/").replace("~0", "~")]
        return _SchemaNode(document, self.documents, node)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _fields(schema_node: _SchemaNode, depth: int) -> Iterable[dict[str, Any]]:
    """Yield the fields of an object, those of Debezium's images down to `depth`."""
    schema_node, _ = schema_node.resolve()
    schema = schema_node.schema
    properties = schema.get("properties", {})
    required_names = frozenset(schema.get("required", ()))
    order = sorted(properties, key=lambda name: _index(properties[name]))
    for name in order:
        field_node, nullable = schema_node.with_node(properties[name]).resolve()
        connect_field = _connect_field(field_node.schema)
        is_of_connect = any(
            "connect.index" in node for node in (properties[name], field_node.schema)
        )
        may_lack = name not in required_names and not is_of_connect
        connect_field["field"] = name
        connect_field["optional"] |= nullable or may_lack
        if depth and name in _IMAGES and connect_field["type"] == "struct":
            connect_field["fields"] = [*_fields(field_node, depth - 1)]
        yield connect_field


def _index(schema: Any) -> int:
    index = schema.get("connect.index", 0) if isinstance(schema, dict) else 0
    return index if isinstance(index, int) else 0


def _connect_field(schema: Any) -> dict[str, Any]:
    type_name = schema.get("type", "object" if "properties" in schema else "")
    kinds = type_name if isinstance(type_name, list) else [type_name]
    non_null_kinds = [kind for kind in kinds if kind != "null"]
    kind = non_null_kinds[0] if len(non_null_kinds) == 1 else ""
    title = str(schema.get("title", ""))
    semantic = title if title.startswith(_SEMANTICS) else ""
    if kind == "string" and not semantic and "connect.type" not in schema:
        semantic = TIME + _FORMATS[schema["format"]] if schema.get("format") in _FORMATS else ""
    literal = "struct" if kind == "object" else _TYPES.get(kind, kind)
    return {
        "type": str(schema.get("connect.type", literal)),
        "optional": len(non_null_kinds) < len(kinds),
        "name": semantic,
        "parameters": dict(schema.get("connect.parameters", {})),
        "doc": str(schema.get("description", schema.get("connect.doc", ""))),
        "default": schema.get("default"),
    }
