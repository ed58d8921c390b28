"""Parses an Avro schema into a tree with resolved names, and describes its columns.

Source: Apache Avro's specification, "Names" and "Schema Declaration"; for the attributes
``connect.name`` and ``connect.parameters`` Confluent's `AvroData.java`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.source_types.connect import CONNECT, DECIMAL, TIME
from stream_app.cdc.source_types.connect_fields import ConnectField

_PRIMITIVES = frozenset(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
_LITERALS = {"int": "int32", "long": "int64", "enum": "string", "fixed": "bytes"}
_SMALL_INTEGERS = frozenset({"int8", "int16"})
_LOGICAL = {
    "date": CONNECT + "Date",
    "time-millis": CONNECT + "Time",
    "time-micros": TIME + "MicroTime",
    "timestamp-millis": CONNECT + "Timestamp",
    "timestamp-micros": TIME + "MicroTimestamp",
    "timestamp-nanos": TIME + "NanoTimestamp",
    "local-timestamp-millis": CONNECT + "Timestamp",
    "local-timestamp-micros": TIME + "MicroTimestamp",
    "local-timestamp-nanos": TIME + "NanoTimestamp",
}
"""Logical type of Avro → the semantic type of the same unit, for types without `connect.name`."""
_PRECISION_MAX = 38
"""The maximum precision that is believed: Connect's converter declares 64 if it knows none."""
_DEPTH_MAX = 64
"""The most levels of a schema, because readers recurse into each."""
_SIZE_MAX = 2**31 - 1
_TYPES_MAX = 100_000
"""The most types in a schema. Each use of a name counts: n names that use names can make 2^n."""


_TOO_DEEP = f"has a schema of more than {_DEPTH_MAX} levels, or one that holds itself"
_SHOWN_LENGTH_MAX = 160


@dataclass(slots=True, eq=False)
class AvroType:
    """An Avro type.

    Attributes:
        kind: ``record``, ``union``, ``long`` and so on.
        attributes: the attributes of its declaration.
        fields: the fields of a record, in the order of the bytes.
        branches: the branches of a union.
        items: the items of an array or a map.
    """

    kind: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[tuple[str, AvroType], ...] = ()
    branches: tuple[AvroType, ...] = ()
    items: AvroType | None = None

    @property
    def symbols(self) -> list[str]:
        """The symbols of an enum."""
        return [str(symbol) for symbol in self.attributes["symbols"]]

    @property
    def size(self) -> int:
        """The size of a fixed, in bytes."""
        return int(self.attributes["size"])

    @property
    def docs(self) -> Mapping[str, str]:
        """The comments of a record's fields."""
        fields = self.attributes.get("fields", ())
        return {column["name"]: str(column["doc"]) for column in fields if column.get("doc")}

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The defaults of a record's fields, without those that are null."""
        fields = self.attributes.get("fields", ())
        defaults = {column["name"]: column.get("default") for column in fields}
        return {name: value for name, value in defaults.items() if value is not None}

    def field(self, name: str) -> AvroType | None:
        """Return a field of a record, or None if the record lacks it."""
        return dict(self.fields).get(name)

    def without_null(self) -> AvroType:
        """Return the only branch of a union beside null; of other types the type itself."""
        branches = [branch for branch in self.branches if branch.kind != "null"]
        return branches[0] if len(branches) == 1 else self


def parse_schema(text: str) -> AvroType:
    """Return the type of a schema.

    Raises:
        UnreadableRecordError: the text is not a schema of Avro, or a few bytes could be a value of
            any size by it.
    """
    root = _type_or_problem(text)
    if isinstance(root, str):
        raise UnreadableRecordError(root)
    return root


@lru_cache(maxsize=256)
def _type_or_problem(text: str) -> AvroType | str:
    try:
        root = _parse_type(json.loads(text), "", {})
        _check(root, 0, itertools.count(1))
    except UnreadableRecordError as problem:
        return str(problem)
    except RecursionError:
        return _TOO_DEEP
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"has a schema that is not Avro's: {type(error).__name__}: {error}"[
            :_SHOWN_LENGTH_MAX
        ]
    return root


def _check(avro_type: AvroType, depth: int, type_numbers: Iterator[int]) -> bool:
    """Check what readers rely on, and return whether every value of the type has at least one byte.

    Args:
        type_numbers: counts the types of the schema.

    Raises:
        UnreadableRecordError: messages of the schema cannot be read within bounds.
        ValueError, TypeError, KeyError, AttributeError: the text is not a schema.
    """
    if next(type_numbers) > _TYPES_MAX:
        raise UnreadableRecordError(f"has a schema of more than {_TYPES_MAX} types")
    if depth > _DEPTH_MAX:  # also of a type that holds itself
        raise UnreadableRecordError(_TOO_DEEP)
    avro_connect_field(avro_type)
    if avro_type.kind == "enum":
        [*map(_checked_name, avro_type.attributes["symbols"])]
    if avro_type.kind == "fixed":
        if not 0 <= avro_type.size <= _SIZE_MAX:
            raise ValueError(f"the size of a fixed is {avro_type.size}")
        return avro_type.size > 0
    fields_have_bytes = [
        _check(field_type, depth + 1, type_numbers) for _, field_type in avro_type.fields
    ]
    for branch in avro_type.branches:
        _check(branch, depth + 1, type_numbers)
    if avro_type.items is not None:
        has_bytes = _check(avro_type.items, depth + 1, type_numbers)
        if avro_type.kind == "array" and not has_bytes:
            raise UnreadableRecordError("has a schema with an array of items without bytes")
    return any(fields_have_bytes) if avro_type.kind == "record" else avro_type.kind != "null"


def _parse_type(schema: Any, namespace: str, type_of_name: dict[str, AvroType]) -> AvroType:
    """Return the type of a schema, and add the names that it declares to `type_of_name`."""
    if isinstance(schema, list):
        branches = tuple(_parse_type(branch, namespace, type_of_name) for branch in schema)
        return AvroType("union", branches=branches)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return AvroType(schema)
        return type_of_name[_full_name(schema, namespace)]
    kind = schema["type"]
    if not isinstance(kind, str):
        return _parse_type(kind, namespace, type_of_name)
    if kind in ("record", "enum", "fixed"):
        namespace = schema.get("namespace", namespace)
        declared_type = AvroType(kind, schema)
        full_name = _full_name(schema["name"], namespace)
        type_of_name[full_name] = declared_type
        inner_namespace = full_name.rpartition(".")[0]
        declared_type.fields = tuple(
            (
                _checked_name(column["name"]),
                _parse_type(column["type"], inner_namespace, type_of_name),
            )
            for column in schema.get("fields", ())
        )
        return declared_type
    if kind in ("array", "map"):
        items = schema["items" if kind == "array" else "values"]
        return AvroType(kind, schema, items=_parse_type(items, namespace, type_of_name))
    if kind in _PRIMITIVES:
        return AvroType(kind, schema)
    return type_of_name[_full_name(kind, namespace)]


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not a name")
    name.encode()  # raises a ValueError for half of a surrogate pair
    return name


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def avro_connect_field(declared_type: AvroType, comment: str = "") -> ConnectField:
    """Return the description of a column's type, in the terms of Kafka Connect.

    Args:
        comment: the comment of the field that has the type.
    """
    non_null_type = declared_type.without_null()
    attributes = non_null_type.attributes
    semantic = str(attributes.get("connect.name", ""))
    parameters = {
        str(key): str(value) for key, value in attributes.get("connect.parameters", {}).items()
    }
    if attributes.get("logicalType") == "decimal" and semantic in ("", DECIMAL):
        semantic = DECIMAL
        parameters.setdefault("scale", str(attributes.get("scale", 0)))
        if (
            isinstance(precision := attributes.get("precision"), int)
            and precision <= _PRECISION_MAX
        ):
            parameters.setdefault("connect.decimal.precision", str(precision))
    semantic = semantic or _LOGICAL.get(str(attributes.get("logicalType")), "")
    literal = str(attributes.get("connect.type"))
    if literal not in _SMALL_INTEGERS:
        literal = _LITERALS.get(non_null_type.kind, non_null_type.kind)
    comment = comment or str(attributes.get("connect.doc", ""))
    return ConnectField(literal, semantic, parameters, declared_type is not non_null_type, comment)


def raw_schema(text: str) -> Any:
    """Return the schema without logical types, for a reader of values as written."""
    return _without_logic(json.loads(text))


def _without_logic(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logic(part) for part in schema]
    if isinstance(schema, dict):
        return {
            name: _without_logic(part) if name not in ("symbols", "aliases", "default") else part
            for name, part in schema.items()
            if name != "logicalType"
        }
    return schema
