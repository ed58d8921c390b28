"""Encodes changes of a schema in the JSON of Paimon's REST API.

Source: Paimon `schema/SchemaChange.java`.
"""

from __future__ import annotations

from stream_app.format.schema_json import type_object
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeNullability,
    ChangeType,
    ColumnPosition,
    DropColumn,
    DropPrimaryKey,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetColumnComment,
    SetColumnDefault,
    SetOption,
    SetTableComment,
    UnsetOption,
)

_ColumnChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | ChangeType
    | ChangeNullability
    | SetColumnComment
    | SetColumnDefault
)


def json_of_change(change: SchemaChange) -> dict[str, object]:
    """Return a change as the server parses it; a top-level column is a path of one name."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case UnsetOption(key):
            return {"action": "removeOption", "key": key}
        case SetTableComment(comment):
            return {"action": "updateComment", "comment": comment}
        case DropPrimaryKey():
            return {"action": "dropPrimaryKey"}
        case MoveColumn(name, position):
            return {"action": "updateColumnPosition", "move": _move(name, position)}
        case _:
            action, values = _column_change_object(change)
            return {"action": action, "fieldNames": [change.name], **values}


def _column_change_object(change: _ColumnChange) -> tuple[str, dict[str, object]]:
    """Return the action's name and members by which the REST API describes a change."""
    match change:
        case AddColumn(name=name, data_type=data_type, comment=comment, position=position):
            move = None if position is None else _move(name, position)
            return "addColumn", {
                "dataType": type_object(data_type), "comment": comment, "move": move,
            }  # fmt: skip
        case RenameColumn(_, new_name):
            return "renameColumn", {"newName": new_name}
        case DropColumn():
            return "dropColumn", {}
        case ChangeType(_, data_type):
            return "updateColumnType", {
                "newDataType": type_object(data_type), "keepNullability": True,
            }  # fmt: skip
        case ChangeNullability(_, nullable):
            return "updateColumnNullability", {"newNullability": nullable}
        case SetColumnComment(_, comment):
            return "updateColumnComment", {"newComment": comment}
        case SetColumnDefault(_, value):
            return "updateColumnDefaultValue", {"newDefaultValue": value}


def _move(name: str, position: ColumnPosition) -> dict[str, object]:
    return {
        "fieldName": name,
        "referenceFieldName": position.neighbour or None,
        "type": position.move_type.name,
    }
