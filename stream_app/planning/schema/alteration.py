"""Computes the next schema from a schema and changes, or refuses the changes.

Source: Paimon `schema/SchemaManager.java#generateTableSchema`, `types/DataTypeCasts.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET_KEY
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.iceberg_options import METADATA_ICEBERG_STORAGE
from stream_app.model.options.indexed_columns import rename_in_index_options, without_indexes_of
from stream_app.model.options.schema_options import (
    ADD_COLUMN_BEFORE_PARTITION,
    DISABLE_ALTER_COLUMN_NULL_TO_NOT_NULL,
    DISABLE_EXPLICIT_TYPE_CASTING,
)
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.iceberg_schema import iceberg_change_problem
from stream_app.model.schema.table_schema import TableSchema, schema_problems
from stream_app.model.schema.type_members import changeable_members, with_members
from stream_app.planning.schema import schema_changes
from stream_app.planning.schema.option_changes import (
    problem_of_setting,
    problem_of_unsetting,
    rename_in_options,
)

_OTHER_COLUMN = "add a column of the new type"
_INNER_OPTIONS = frozenset(
    option.key
    for option in (
        DISABLE_EXPLICIT_TYPE_CASTING,
        DISABLE_ALTER_COLUMN_NULL_TO_NOT_NULL,
        METADATA_ICEBERG_STORAGE,
    )
)
"""The options that hold for changes inside of columns as well."""
_INSIDE_OTHERS = (schema_changes.ChangeType, schema_changes.ChangeNullability)
_INSIDE_ROWS = (
    *_INSIDE_OTHERS,
    schema_changes.AddColumn,
    schema_changes.RenameColumn,
    schema_changes.DropColumn,
    schema_changes.SetColumnComment,
)
"""What may change inside of a ROW, and of an ARRAY or a MAP; as in Paimon."""
_NUMBERS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.DECIMAL}
_INTEGER_ORDER = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    TypeRoot.VARCHAR: STRING_ROOTS,
    TypeRoot.VARBINARY: BINARY_ROOTS,
    TypeRoot.DECIMAL: _NUMBERS,
    **{root: frozenset(_INTEGER_ORDER[: index + 1]) for index, root in enumerate(_INTEGER_ORDER)},
    TypeRoot.FLOAT: INTEGER_ROOTS | {TypeRoot.FLOAT, TypeRoot.DECIMAL},
    TypeRoot.DOUBLE: _NUMBERS,
    TypeRoot.DATE: frozenset({TypeRoot.DATE, TypeRoot.TIMESTAMP}),
    TypeRoot.TIME: frozenset({TypeRoot.TIME, TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: TIMESTAMP_ROOTS,
    TypeRoot.TIMESTAMP_LTZ: TIMESTAMP_ROOTS,
}
"""Type → the other types from which an implicit cast leads to it."""


@dataclass(frozen=True, slots=True)
class Casting:
    """The facts about casts; `format.casting` has the rules.

    Attributes:
        can_cast: whether a reader can read the first type as the second.
        find_default_problem: returns the reason why a text is not a value of a type, or None.
    """

    can_cast: Callable[[DataType, DataType], bool]
    find_default_problem: Callable[[str, DataType], str | None]


def altered_schema(
    schema: TableSchema,
    changes: Sequence[schema_changes.SchemaChange],
    casting: Casting,
    *,
    has_snapshots: bool,
    time_ms: int,
) -> TableSchema:
    """Apply changes in order, and return the next schema; `schema` itself if nothing differs.

    Raises:
        UsageError: a change is not possible, or no table can have the resulting schema.
    """
    altered_columns = _Altering(schema, casting, has_snapshots=has_snapshots)
    for change in changes:
        altered_columns.apply(change)
    fields = RowType(tuple(altered_columns.fields))
    is_same = (
        fields == schema.fields
        and altered_columns.options == dict(schema.options)
        and altered_columns.comment == schema.comment
        and altered_columns.primary_keys == schema.primary_keys
    )
    if is_same:
        return schema
    problems = schema_problems(
        fields, altered_columns.primary_keys, schema.partition_keys, altered_columns.options
    )
    old_problems = schema_problems(
        schema.fields, schema.primary_keys, schema.partition_keys, schema.options
    )
    if new_problems := [problem for problem in problems if problem not in old_problems]:
        raise _alteration_error("; ".join(new_problems))
    return TableSchema(
        schema_id=schema.schema_id + 1,
        fields=fields,
        highest_field_id=altered_columns.highest_field_id,
        partition_keys=schema.partition_keys,
        primary_keys=altered_columns.primary_keys,
        options=altered_columns.options,
        comment=altered_columns.comment,
        time_ms=time_ms,
    )


def _alteration_error(
    problem: str, fix: str = "leave this change out; no change was made"
) -> UsageError:
    return UsageError(f"the table cannot be altered: {problem}", fix=fix)


class _Altering:
    """The parts of a schema during its alteration."""

    def __init__(self, schema: TableSchema, casting: Casting, *, has_snapshots: bool) -> None:
        self._old_schema = schema
        self._casting = casting
        self._has_snapshots = has_snapshots
        self.fields = list(schema.fields)
        self.highest_field_id = schema.highest_field_id
        self.primary_keys = schema.primary_keys
        self.options = dict(schema.options)
        self.comment = schema.comment

    def apply(self, change: schema_changes.SchemaChange) -> None:  # noqa: C901, PLR0912 - one line for each kind
        """Apply one change.

        Raises:
            UsageError: it is not possible.
        """
        if isinstance(change, schema_changes.FieldChange) and self.is_inside(change.name):
            self._apply_inside(change)
            return
        match change:
            case schema_changes.SetOption(key, value):
                problem = problem_of_setting(
                    self.options, key, value, has_snapshots=self._has_snapshots
                )
                self._refuse(problem)
                self.options[key] = value
            case schema_changes.UnsetOption(key):
                self._refuse(
                    problem_of_unsetting(self.options, key, has_snapshots=self._has_snapshots)
                )
                del self.options[key]
            case schema_changes.SetTableComment(comment):
                self.comment = comment
            case schema_changes.AddColumn():
                self._add(change)
            case schema_changes.RenameColumn(name, new_name):
                self._rename(name, new_name)
            case schema_changes.DropColumn(name):
                self._drop(name)
            case schema_changes.ChangeType(name, data_type):
                self._change_type(name, data_type)
            case schema_changes.ChangeNullability(name, nullable):
                self._change_nullability(name, nullable=nullable)
            case schema_changes.SetColumnComment(name, comment):
                self._replace_column(name, replace(self._column(name), description=comment))
            case schema_changes.SetColumnDefault(name, value):
                self._set_default(name, value)
            case schema_changes.MoveColumn(name, position):
                self._move(name, position)
            case schema_changes.DropPrimaryKey():
                self._refuse("rows have the key already" if self._has_snapshots else None)
                self.primary_keys = ()

    def is_inside(self, name: str) -> bool:
        """Return whether a name is a path into a nested column, such as ``items.element.price``."""
        columns = {column.name: column.data_type for column in self.fields}
        column_name, dot, _ = name.partition(".")
        return bool(
            name not in columns
            and dot
            and column_name in columns
            and columns[column_name].is_nested
        )

    def _apply_inside(self, change: schema_changes.FieldChange) -> None:
        """Apply a change to members of a nested column, which keys and their options never name."""
        column_name, _, path = change.name.partition(".")
        column = self._column(column_name)
        inner_options = {key: value for key, value in self.options.items() if key in _INNER_OPTIONS}
        schema = replace(
            self._old_schema,
            fields=RowType(changeable_members(column.data_type)),
            highest_field_id=self.highest_field_id,
            partition_keys=(),
            primary_keys=(),
            options=inner_options,
        )
        inner = _Altering(schema, self._casting, has_snapshots=self._has_snapshots)
        allowed_changes = _INSIDE_ROWS if column.data_type.root is TypeRoot.ROW else _INSIDE_OTHERS
        if not (inner.is_inside(path) or isinstance(change, allowed_changes)):
            type_name = column.data_type.root.value
            raise _alteration_error(
                f"Paimon makes no such change of {change.name!r}, inside of type {type_name}"
            )
        inner.apply(replace(change, name=path))
        self.highest_field_id = inner.highest_field_id
        changed_type = with_members(column.data_type, inner.fields)
        self._replace_column(column_name, replace(column, data_type=changed_type))

    def _refuse(self, problem: str | None) -> None:
        if problem is not None:
            raise _alteration_error(problem)

    def _index(self, name: str) -> int:
        for index, column in enumerate(self.fields):
            if column.name == name:
                return index
        names_text = ", ".join(column.name for column in self.fields)
        raise _alteration_error(
            f"there is no column {name!r}", fix=f"name one of its columns: {names_text}"
        )

    def _column(self, name: str) -> DataField:
        return self.fields[self._index(name)]

    def _replace_column(self, name: str, column: DataField) -> None:
        self.fields[self._index(name)] = column

    def _add(self, change: schema_changes.AddColumn) -> None:
        if any(column.name == change.name for column in self.fields):
            raise _alteration_error(f"there is a column {change.name!r} already")
        if not change.data_type.nullable:
            raise _alteration_error(
                f"the column {change.name!r} cannot be NOT NULL: it is null in older rows"
            )
        column = DataField(
            field_id=0, name=change.name, data_type=change.data_type, description=change.comment
        ).with_new_ids(count(self.highest_field_id + 1))
        self.highest_field_id = RowType((column,)).highest_id
        self.fields.insert(self._insertion(change.position), column)

    def _insertion(self, position: schema_changes.ColumnPosition | None) -> int:
        """Return the index at which a column is added."""
        match position:
            case None:
                keys = self._old_schema.partition_keys
                if keys and ADD_COLUMN_BEFORE_PARTITION.read(self.options):
                    return min(self._index(key) for key in keys)
                return len(self.fields)
            case schema_changes.ColumnPosition(schema_changes.MoveType.FIRST):
                return 0
            case schema_changes.ColumnPosition(schema_changes.MoveType.LAST):
                return len(self.fields)
            case schema_changes.ColumnPosition(move_type, neighbour):
                return self._index(neighbour) + (move_type is schema_changes.MoveType.AFTER)

    def _rename(self, name: str, new_name: str) -> None:
        self._index(name)
        if name in self._old_schema.partition_keys:
            raise _alteration_error(
                f"{name!r} is a partition key: folders of partitions have its name"
            )
        if any(column.name == new_name for column in self.fields):
            raise _alteration_error(f"there is a column {new_name!r} already")
        self._replace_column(name, replace(self._column(name), name=new_name))
        self.primary_keys = tuple(new_name if key == name else key for key in self.primary_keys)
        options = rename_in_options(self.options, name, new_name)
        self.options = rename_in_index_options(options, name, new_name)

    def _drop(self, name: str) -> None:
        index = self._index(name)
        if name in self._old_schema.partition_keys or name in self.primary_keys:
            raise _alteration_error(f"{name!r} is a column of the key")
        if len(self.fields) == 1:
            raise _alteration_error(f"{name!r} is the only column")
        del self.fields[index]
        self.options = without_indexes_of(self.options, name)

    def _change_type(self, name: str, data_type: DataType) -> None:
        """Change a column's type if its stored values can be cast to the other type."""
        column = self._column(name)
        self._check_not_key(name)
        old_type = column.data_type
        not_null_type = data_type.not_null()
        keeps_not_null = not old_type.nullable and self._casting.can_cast(old_type, not_null_type)
        new_type = not_null_type if keeps_not_null else data_type.as_nullable()
        if old_type.is_nested or new_type.is_nested:
            path_fix = f"change what is inside by its path, such as {name}.field; or "
            has_paths = old_type.root in (TypeRoot.ROW, TypeRoot.ARRAY, TypeRoot.MAP)
            raise _alteration_error(
                f"the column {name!r} is {old_type}, and shall be {new_type}: a type that is "
                "nested stays as it is, and no other type becomes one",
                fix=f"{path_fix if has_paths else ''}{_OTHER_COLUMN}",
            )
        is_explicit = not DISABLE_EXPLICIT_TYPE_CASTING.read(self.options)
        is_allowed = is_explicit or is_implicit_cast(old_type, new_type)
        if not (is_allowed and self._casting.can_cast(old_type, new_type)):
            raise _alteration_error(
                f"the column {name!r} is {old_type}, whose values are not {new_type}"
            )
        if problem := iceberg_change_problem(old_type, new_type, self.options):
            raise _alteration_error(
                f"the column {name!r} is {old_type}: {problem}", fix=_OTHER_COLUMN
            )
        self._check_default(column.default_value, new_type, name)
        self._replace_column(name, replace(column, data_type=new_type))

    def _check_not_key(self, name: str) -> None:
        for role, keys in (
            ("primary key", self.primary_keys),
            ("partition key", self._old_schema.partition_keys),
            ("bucket key", CoreOptions(self.options).columns(BUCKET_KEY)),
        ):
            if name in keys:
                raise _alteration_error(
                    f"{name!r} is a column of the {role}: its type cannot change"
                )

    def _change_nullability(self, name: str, *, nullable: bool) -> None:
        old_type = self._column(name).data_type
        if nullable != old_type.nullable and name in self.primary_keys:
            raise _alteration_error(
                f"{name!r} is a column of the primary key: 'primary-key.nullable' of a new table "
                "says whether it may be null"
            )
        option = DISABLE_ALTER_COLUMN_NULL_TO_NOT_NULL
        if old_type.nullable and not nullable and option.read(self.options):
            raise _alteration_error(
                f"the column {name!r} may have nulls",
                fix=f"if no row has one, set the option {option.key!r} to 'false' first",
            )
        data_type = old_type.as_nullable() if nullable else old_type.not_null()
        self._replace_column(name, replace(self._column(name), data_type=data_type))

    def _set_default(self, name: str, value: str | None) -> None:
        column = self._column(name)
        self._check_default(value, column.data_type, name)
        self._replace_column(name, replace(column, default_value=value))

    def _check_default(self, value: str | None, data_type: DataType, name: str) -> None:
        problem = None if value is None else self._casting.find_default_problem(value, data_type)
        if problem is not None:
            raise _alteration_error(
                f"the default {value!r} of {name!r} is not a valid {data_type}: {problem}"
            )

    def _move(self, name: str, position: schema_changes.ColumnPosition) -> None:
        column = self._column(name)
        if position.neighbour == name:
            raise _alteration_error(f"the column {name!r} cannot be moved beside itself")
        self.fields.remove(column)
        try:
            self.fields.insert(self._insertion(position), column)
        except UsageError:
            raise _alteration_error(f"there is no column {position.neighbour!r}") from None


def is_implicit_cast(stored_type: DataType, target_type: DataType) -> bool:
    """Return whether Paimon casts one type to the other if explicit casts are disabled."""
    return stored_type.root in _IMPLICIT.get(target_type.root, frozenset({target_type.root}))
