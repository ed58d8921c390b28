"""Joins an Avro schema and the schemas to which it refers into one text.

Each type is defined where it is first used, so readers of schemas need not follow references. The
formats of Avro call it once for each schema.

Source: Apache Avro's specification, "Names"; Confluent's "Schema references".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import RegisteredSchema, SchemaKind, Schemas

_NAMED_KINDS = frozenset(["record", "enum", "fixed", "error"])
_ITEM_KEYS = frozenset(["items", "values"])
_SHOWN_LENGTH_MAX = 160


def avro_text(schemas: Schemas, schema_number: int) -> str:
    """Return the text of a schema of Avro.

    Args:
        schema_number: -1 stands for messages that are not in the wire format.

    Raises:
        UnreadableRecordError: the registry has no schema of this number.
        SourceError: no registry answers.
    """
    registered_schema = schemas.schema(schema_number)
    registered_schema.check(SchemaKind.AVRO)
    return (
        _joined_text(registered_schema) if registered_schema.references else registered_schema.text
    )


@lru_cache(maxsize=256)
def _joined_text(registered_schema: RegisteredSchema) -> str:
    try:
        types = _NamedTypes()
        for _, text in registered_schema.references:
            types.declare(json.loads(text), "")
        return json.dumps(types.resolve(json.loads(registered_schema.text), ""))
    except RecursionError:
        problem = "its references nest too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise UnreadableRecordError(f"has a schema that is not Avro's: {problem}"[:_SHOWN_LENGTH_MAX])


@dataclass(slots=True)
class _NamedTypes:
    """The named types of the references.

    Attributes:
        type_of_name: the declaration of each type, by full name.
        written_names: the names of the types that the joined text already has.
    """

    type_of_name: dict[str, Any] = field(default_factory=dict)
    written_names: set[str] = field(default_factory=set)

    def declare(self, schema: Any, namespace: str) -> None:
        """Collect the named types within a schema."""
        if isinstance(schema, list):
            for branch in schema:
                self.declare(branch, namespace)
        if not isinstance(schema, dict):
            return
        if isinstance(schema["type"], str) and schema["type"] in _NAMED_KINDS:
            name, namespace = _full_name(schema, namespace)
            short_name = name.rpartition(".")[2]
            self.type_of_name[name] = {**schema, "name": short_name, "namespace": namespace}
        for column in schema.get("fields", ()):
            self.declare(column["type"], namespace)
        for key in ("type", "items", "values"):
            self.declare(schema.get(key), namespace)

    def resolve(self, schema: Any, namespace: str) -> Any:
        """Return the schema with the types of references, each where it is first used."""
        if isinstance(schema, list):
            return [self.resolve(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return self._resolve_name(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, str) and kind in _NAMED_KINDS:
            name, namespace = _full_name(schema, namespace)
            if name in self.written_names:
                return name
            self.written_names.add(name)
            schema = {**schema, "name": name.rpartition(".")[2], "namespace": namespace}
        else:
            schema = {**schema, "type": self.resolve(kind, namespace)}
        inner_types = {
            key: self.resolve(schema[key], namespace) for key in _ITEM_KEYS & schema.keys()
        }
        columns = [
            {**column, "type": self.resolve(column["type"], namespace)}
            for column in schema.get("fields", ())
        ]
        return {**schema, **inner_types, **({"fields": columns} if "fields" in schema else {})}

    def _resolve_name(self, name: str, namespace: str) -> Any:
        for full_name in (f"{namespace}.{name}" if namespace else name, name):
            if full_name in self.written_names:
                return full_name
            if full_name in self.type_of_name:
                return self.resolve(self.type_of_name[full_name], "")
        return name


def _full_name(schema: Any, namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of the names within."""
    name = schema["name"]
    if "." not in name:
        own_namespace = schema.get("namespace", namespace) or ""
        name = f"{own_namespace}.{name}" if own_namespace else name
    return name, name.rpartition(".")[0]
