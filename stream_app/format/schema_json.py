"""Encodes and decodes schema files, which are JSON.

Source: Paimon `schema/SchemaSerializer.java`, `schema/TableSchema.java`,
`types/DataTypeJsonParser.java`.
"""

from __future__ import annotations

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.schema.data_type import (
    DataField,
    DataType,
    RowType,
    TypeRoot,
    parse_data_type,
    vector_type,
)
from stream_app.model.schema.table_schema import TableSchema, unread_blobs

_VERSION = 3
_FILE_KIND = "schema"
_KNOWN = frozenset(
    {
        *("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys"),
        *("options", "comment", "timeMillis"),
    }
)
_KNOWN_OF_COLUMN = frozenset({"id", "name", "type", "description", "defaultValue"})


def encode_schema(schema: TableSchema) -> bytes:
    """Encode a schema file.

    An absent comment or description is omitted, because Java reads a JSON null as the text "null".
    """
    return encode_object(
        {
            "version": _VERSION,
            "id": schema.schema_id,
            "fields": field_objects(schema),
            "highestFieldId": schema.highest_field_id,
            "partitionKeys": list(schema.partition_keys),
            "primaryKeys": list(schema.primary_keys),
            "options": {key: str(value) for key, value in schema.options.items()},
            "comment": schema.comment,
            "timeMillis": schema.time_ms,
        }
    )


def field_objects(schema: TableSchema) -> list[dict[str, object]]:
    """Encode columns as JSON objects."""
    return [_field_object(field) for field in schema.fields]


def _field_object(field: DataField) -> dict[str, object]:
    value: dict[str, object] = {
        "id": field.field_id,
        "name": field.name,
        "type": type_object(field.data_type),
    }
    if field.description is not None:
        value["description"] = field.description
    if field.default_value is not None:
        value["defaultValue"] = field.default_value
    return value


def type_object(data_type: DataType) -> object:
    """Encode a type: as an object if it has other types inside, else as text."""
    if not data_type.is_nested or data_type.root is TypeRoot.VARIANT:
        return str(data_type)
    value: dict[str, object] = {
        "type": data_type.root.value + ("" if data_type.nullable else " NOT NULL")
    }
    if data_type.key is not None:
        value["key"] = type_object(data_type.key)
    if data_type.element is not None:
        is_map = data_type.root is TypeRoot.MAP
        value["value" if is_map else "element"] = type_object(data_type.element)
    if data_type.root is TypeRoot.VECTOR:
        value["length"] = data_type.length
    if data_type.root is TypeRoot.ROW:
        value["fields"] = [_field_object(field) for field in data_type.fields]
    return value


def decode_schema(data: bytes) -> TableSchema:
    """Decode a schema file; the schema keeps the names of unknown keys.

    Raises:
        CorruptFileError: the bytes are not JSON, or a key is missing.
        UnsupportedTableError: a column is a MULTISET or of an unknown type, or has BLOBs that
            `unread_blobs` names.
    """
    json = JsonObject.decode(data, file_kind=_FILE_KIND)
    schema = TableSchema(
        schema_id=json.integer("id"),
        fields=RowType(
            tuple(
                _read_field(JsonObject(item, file_kind=_FILE_KIND)) for item in json.items("fields")
            )
        ),
        highest_field_id=json.integer("highestFieldId"),
        partition_keys=_read_names(json, "partitionKeys"),
        primary_keys=_read_names(json, "primaryKeys"),
        options=_options(json),
        comment=json.optional_text("comment"),
        time_ms=json.integer("timeMillis", 0),
        unknown_fields=(*json.unknown_keys(_KNOWN), *_unknown_column_keys(json)),
    )
    _check_blobs(schema)
    return schema


def _check_blobs(schema: TableSchema) -> None:
    for column in schema.fields:
        if where := unread_blobs(schema, column):
            raise UnsupportedTableError(
                f"column {column.name!r} has BLOBs in {where}, which stream_app does not read",
                fix="use Paimon's own engines, or make a new table in which the column is BYTES",
            )


def _unknown_column_keys(json: JsonObject) -> list[str]:
    columns = [JsonObject(item, file_kind=_FILE_KIND) for item in json.items("fields")]
    return [
        f"{column.text('name')}.{key}"
        for column in columns
        for key in column.unknown_keys(_KNOWN_OF_COLUMN)
    ]


def _read_field(json: JsonObject) -> DataField:
    name = json.text("name")
    return DataField(
        field_id=json.integer("id"),
        name=name,
        data_type=_read_data_type(json.raw("type"), column=name),
        description=json.optional_text("description"),
        default_value=json.optional_text("defaultValue"),
    )


def _read_data_type(value: object, *, column: str) -> DataType:
    """Decode a type: a text, or an object for ARRAY, MAP, ROW and VECTOR."""
    if isinstance(value, str):
        try:
            return parse_data_type(value)
        except UsageError:
            raise _unsupported_type(value, column) from None
    if not isinstance(value, dict):
        raise _unsupported_type(value, column)
    type_text = str(value.get("type"))
    json = JsonObject(value, file_kind=_FILE_KIND)
    nullable = "NOT NULL" not in type_text
    match type_text.removesuffix(" NOT NULL"):
        case "ARRAY":
            element = _read_data_type(json.raw("element"), column=column)
            return DataType(root=TypeRoot.ARRAY, nullable=nullable, element=element)
        case "VECTOR":
            element = _read_data_type(json.raw("element"), column=column)
            try:
                return vector_type(element, json.integer("length"), nullable=nullable)
            except UsageError:
                raise _unsupported_type(f"VECTOR of {element}", column) from None
        case "MAP":
            key, element = (
                _read_data_type(json.raw(part), column=column) for part in ("key", "value")
            )
            return DataType(root=TypeRoot.MAP, nullable=nullable, key=key, element=element)
        case "ROW":
            items = json.items("fields")
            fields = tuple(_read_field(JsonObject(item, file_kind=_FILE_KIND)) for item in items)
            return DataType(root=TypeRoot.ROW, nullable=nullable, fields=fields)
        case _:
            raise _unsupported_type(type_text, column)


def _unsupported_type(type_text: object, column: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"column {column!r} has the type {type_text}, which stream_app does not read or write yet",
        fix="use scalar types, ARRAY, MAP, ROW, VECTOR and VARIANT (others as STRING, e.g. JSON)",
    )


def _read_names(json: JsonObject, key: str) -> tuple[str, ...]:
    return tuple(str(name) for name in json.items(key))


def _options(json: JsonObject) -> dict[str, str]:
    """Return the options, completed with defaults of older versions of the file."""
    options = json.text_map("options") or {}
    version = json.integer("version", 1)
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    return options
