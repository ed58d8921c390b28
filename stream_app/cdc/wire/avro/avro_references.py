"""Makes one text of an Avro schema and of the schemas to which it refers.

Each type stands where it is first used, so that readers know nothing of references. Called by the
formats of Avro, once for each schema.

Source: Apache Avro's specification, "Names"; Confluent's "Schema references".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import Registered, SchemaKind, Schemas

_NAMED = frozenset(["record", "enum", "fixed", "error"])
_INNER = frozenset(["items", "values"])
_SHOWN_MAX = 160


def avro_text(schemas: Schemas, number: int) -> str:
    """Return the text of a schema of Avro.

    Args:
        number: -1: the message is not in the wire format.

    Raises:
        UnreadableRecordError: the registry has no schema of this number.
        SourceError: no registry answers.
    """
    registered = schemas.schema(number)
    registered.check(SchemaKind.AVRO)
    return _in_one(registered) if registered.references else registered.text


@lru_cache(maxsize=256)
def _in_one(registered: Registered) -> str:
    try:
        names = _Names()
        for _, text in registered.references:
            names.declare(json.loads(text), "")
        return json.dumps(names.resolve(json.loads(registered.text), ""))
    except RecursionError:
        problem = "its references nest too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise UnreadableRecordError(f"has a schema that is not Avro's: {problem}"[:_SHOWN_MAX])


@dataclass(slots=True)
class _Names:
    """The types of the references, by full name.

    Attributes:
        written: names whose type stands in the text already.
    """

    declared: dict[str, Any] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def declare(self, schema: Any, namespace: str) -> None:
        """Collect the named types within a schema."""
        if isinstance(schema, list):
            for branch in schema:
                self.declare(branch, namespace)
        if not isinstance(schema, dict):
            return
        if isinstance(schema["type"], str) and schema["type"] in _NAMED:
            name, namespace = _full_name(schema, namespace)
            short = {"name": name.rpartition(".")[2], "namespace": namespace}
            self.declared[name] = {**schema, **short}
        for column in schema.get("fields", ()):
            self.declare(column["type"], namespace)
        for key in ("type", "items", "values"):
            self.declare(schema.get(key), namespace)

    def resolve(self, schema: Any, namespace: str) -> Any:
        """Return the schema with each type of a reference where it is first used."""
        if isinstance(schema, list):
            return [self.resolve(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return self._resolve_name(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, str) and kind in _NAMED:
            name, namespace = _full_name(schema, namespace)
            if name in self.written:
                return name
            self.written.add(name)
            schema = {**schema, "name": name.rpartition(".")[2], "namespace": namespace}
        else:
            schema = {**schema, "type": self.resolve(kind, namespace)}
        inner = {key: self.resolve(schema[key], namespace) for key in _INNER & schema.keys()}
        columns = [
            {**column, "type": self.resolve(column["type"], namespace)}
            for column in schema.get("fields", ())
        ]
        return {**schema, **inner, **({"fields": columns} if "fields" in schema else {})}

    def _resolve_name(self, name: str, namespace: str) -> Any:
        for full in (f"{namespace}.{name}" if namespace else name, name):
            if full in self.written:
                return full
            if full in self.declared:
                return self.resolve(self.declared[full], "")
        return name


def _full_name(schema: Any, namespace: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of the names within."""
    name = schema["name"]
    if "." not in name:
        space = schema.get("namespace", namespace) or ""
        name = f"{space}.{name}" if space else name
    return name, name.rpartition(".")[0]
