"""Names columns' types as Hive does; only Hive's own readers use these names.

Source: Paimon `hive/HiveTypeUtils.java`, `hive/LocalZonedTimestampTypeUtils.java`.
"""

from __future__ import annotations

from stream_app.model.schema.data_type import DataType, TypeRoot

_CHAR_MAX = 255
_VARCHAR_MAX = 65_535
_BY_ROOT = {
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
}
"""Hive's names of types that are not Paimon's in lower case."""


def hive_type(data_type: DataType) -> str:
    """Return the name of a type: ``struct<id:bigint,tags:array<string>>``."""
    match data_type.root:
        case TypeRoot.ROW:
            fields = (f"{field.name}:{hive_type(field.data_type)}" for field in data_type.fields)
            return f"struct<{','.join(fields)}>"
        case TypeRoot.VECTOR:
            return f"array<{','.join(map(hive_type, data_type.inner))}>"
        case TypeRoot.ARRAY | TypeRoot.MAP:
            inner_types = ",".join(map(hive_type, data_type.inner))
            return f"{data_type.root.value.lower()}<{inner_types}>"
        case TypeRoot.DECIMAL:
            return f"decimal({data_type.precision},{data_type.scale})"
        case TypeRoot.CHAR:
            return f"char({data_type.length})" if data_type.length <= _CHAR_MAX else "string"
        case TypeRoot.VARCHAR:
            return f"varchar({data_type.length})" if data_type.length <= _VARCHAR_MAX else "string"
        case root:
            return _BY_ROOT.get(root) or str(root.value).lower()
