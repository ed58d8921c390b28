"""Defines the logical types of columns, with their text form in Paimon's schema files.

All layers use it. `format.schema_json` converts types to JSON, `format.arrow_schema` to Arrow, and
`format.binary_row` encodes their values.

Source: Paimon `types/DataTypeJsonParser.java`, `types/{Array,Map,Row}Type.java`,
`types/ReassignFieldId.java`, `docs/concepts/spec/schema.md`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from stream_app.errors import UsageError
from stream_app.model.bracketed_text import split_outside_brackets

STRING_MAX = 2_147_483_647
"""The length of STRING and BYTES."""
DECIMAL_PRECISION_MAX = 38
TIMESTAMP_PRECISION_MAX = 9
_PATTERN = re.compile(
    r"(?P<name>[A-Z_]+)\s*(?:\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH(?:OUT)?\s+(?:LOCAL\s+)?TIME\s+ZONE)?"
    r"(?P<null>\s+NOT\s+NULL|\s+NULL)?"
)
_NESTED_PATTERN = re.compile(
    r"(?P<name>ARRAY|MAP|ROW|VECTOR)\s*<(?P<inner_text>.*)>(?P<null>\s+NOT\s+NULL|\s+NULL)?",
    re.IGNORECASE | re.DOTALL,
)
_BRACKETS_AND_QUOTES = ("(<", ")>", '`"')
"""Brackets around commas of a type, and quotes around names."""


class TypeRoot(enum.Enum):
    """The family of a type; the value is its SQL name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP WITH LOCAL TIME ZONE"
    ARRAY = "ARRAY"
    MAP = "MAP"
    ROW = "ROW"
    VECTOR = "VECTOR"
    VARIANT = "VARIANT"
    BLOB = "BLOB"


STRING_ROOTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
INTEGER_ROOTS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT})
FLOAT_ROOTS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
TIMESTAMP_ROOTS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
NESTED_ROOTS = frozenset(
    {TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.VECTOR, TypeRoot.VARIANT}
)
LIST_ROOTS = frozenset({TypeRoot.ARRAY, TypeRoot.VECTOR})
VECTOR_ELEMENTS = INTEGER_ROOTS | FLOAT_ROOTS | {TypeRoot.BOOLEAN}

_NO_ARGUMENT = {
    "BOOLEAN": TypeRoot.BOOLEAN,
    "TINYINT": TypeRoot.TINYINT,
    "SMALLINT": TypeRoot.SMALLINT,
    "INT": TypeRoot.INT,
    "INTEGER": TypeRoot.INT,
    "BIGINT": TypeRoot.BIGINT,
    "FLOAT": TypeRoot.FLOAT,
    "DOUBLE": TypeRoot.DOUBLE,
    "DATE": TypeRoot.DATE,
    "VARIANT": TypeRoot.VARIANT,
    "BLOB": TypeRoot.BLOB,
}
_LENGTH = {
    "CHAR": (TypeRoot.CHAR, 1),
    "VARCHAR": (TypeRoot.VARCHAR, 1),
    "BINARY": (TypeRoot.BINARY, 1),
    "VARBINARY": (TypeRoot.VARBINARY, 1),
    "STRING": (TypeRoot.VARCHAR, STRING_MAX),
    "BYTES": (TypeRoot.VARBINARY, STRING_MAX),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """A SQL type.

    Attributes:
        length: the characters of CHAR/VARCHAR, bytes of BINARY/VARBINARY, elements of VECTOR, else
            0.
        precision: the digits of DECIMAL, fractional digits of TIME and timestamps, else 0.
        scale: the fractional digits of DECIMAL, else 0.
        key: the key type of a MAP.
        element: the element type of an ARRAY or VECTOR, or the value type of a MAP.
        fields: the fields of a ROW.
    """

    root: TypeRoot
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    key: DataType | None = None
    element: DataType | None = None
    fields: tuple[DataField, ...] = ()

    def __str__(self) -> str:
        return self._text() + ("" if self.nullable else " NOT NULL")

    def _text(self) -> str:
        match self.root:
            case TypeRoot.ARRAY:
                return f"ARRAY<{self.element}>"
            case TypeRoot.VECTOR:
                return f"VECTOR<{self.element}, {self.length}>"
            case TypeRoot.MAP:
                return f"MAP<{self.key}, {self.element}>"
            case TypeRoot.ROW:
                return f"ROW<{', '.join(map(_field_text, self.fields))}>"
            case _:
                return self._scalar_text()

    def _scalar_text(self) -> str:
        """Return the SQL name of a scalar type, with its arguments."""
        match self.root:
            case TypeRoot.VARCHAR if self.length == STRING_MAX:
                return "STRING"
            case TypeRoot.VARBINARY if self.length == STRING_MAX:
                return "BYTES"
            case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
                return f"{self.root.value}({self.length})"
            case TypeRoot.DECIMAL:
                return f"DECIMAL({self.precision}, {self.scale})"
            case TypeRoot.TIME | TypeRoot.TIMESTAMP:
                return f"{self.root.value}({self.precision})"
            case TypeRoot.TIMESTAMP_LTZ:
                return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
            case _:
                return str(self.root.value)

    def not_null(self) -> DataType:
        """Return the type as NOT NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        """Return the type as nullable."""
        return self if self.nullable else replace(self, nullable=True)

    @property
    def is_nested(self) -> bool:
        """Whether its values contain values of declared types, unlike a VARIANT's."""
        return self.root in NESTED_ROOTS

    @property
    def inner(self) -> tuple[DataType, ...]:
        """The types one level inside."""
        inner_types = filter(None, (self.key, self.element))
        return (*inner_types, *(field.data_type for field in self.fields))

    def scalars(self) -> Iterator[DataType]:
        """Yield the scalar types inside, at any depth; a scalar type itself; none for VARIANT."""
        if not self.is_nested:
            yield self
        for inner_type in self.inner:
            yield from inner_type.scalars()

    def with_new_ids(self, ids: Iterator[int]) -> DataType:
        """Return the type with new ids for fields of ROWs, each after those of its inner fields."""
        if not self.is_nested:
            return self
        key = None if self.key is None else self.key.with_new_ids(ids)
        element = None if self.element is None else self.element.with_new_ids(ids)
        inner = (
            replace(member, data_type=member.data_type.with_new_ids(ids)) for member in self.fields
        )
        fields = tuple(replace(member, field_id=next(ids)) for member in inner)
        return replace(self, key=key, element=element, fields=fields)

    def fits_into(self, other: DataType, *, compares_ids: bool = False) -> bool:
        """Return whether the other type has all values of this type unchanged.

        Nested comments and defaults do not count, nor does the outermost nullability. A nullable
        nested type must be nullable in the other one.

        Args:
            compares_ids: whether fields of ROWs must have the same ids besides the same names.
        """
        if self._own_parts(uses_ids=compares_ids) != other._own_parts(uses_ids=compares_ids):
            return False
        return all(
            inner.fits_into(other_inner, compares_ids=compares_ids)
            and (other_inner.nullable or not inner.nullable)
            for inner, other_inner in zip(self.inner, other.inner, strict=True)
        )

    def _own_parts(self, *, uses_ids: bool) -> tuple[object, ...]:
        """Return the type without its nested types and its nullability."""
        fields = tuple((member.name, member.field_id if uses_ids else 0) for member in self.fields)
        return self.root, self.length, self.precision, self.scale, fields

    def field_ids(self) -> Iterator[int]:
        """Yield the ids of fields of ROWs, at any depth."""
        for field in self.fields:
            yield field.field_id
        for inner_type in self.inner:
            yield from inner_type.field_ids()


STRING = DataType(root=TypeRoot.VARCHAR, length=STRING_MAX)
BYTES = DataType(root=TypeRoot.VARBINARY, length=STRING_MAX)
VARIANT = DataType(root=TypeRoot.VARIANT)


def parse_data_type(text: str) -> DataType:
    """Parse a SQL type, such as ``DECIMAL(12,2) NOT NULL`` or ``ARRAY<ROW<a INT>>``.

    Fields of a ROW have the ids 0, 1, 2 …; see `DataType.with_new_ids`.

    Raises:
        UsageError: the text is not a type that stream_app stores.
    """
    if nested_match := _NESTED_PATTERN.fullmatch(text.strip()):
        return _nested_type(text, **nested_match.groupdict())
    match = _PATTERN.fullmatch(text.strip().upper())
    if not match:
        raise _no_type_error(text)
    first_argument = None if match["first"] is None else int(match["first"])
    second_argument = None if match["second"] is None else int(match["second"])
    nullable = "NOT" not in (match["null"] or "")
    base = _base_type(match["name"], first_argument, second_argument, zone=match["zone"] or "")
    if base is None:
        raise _no_type_error(text)
    return base if nullable else base.not_null()


def _nested_type(text: str, name: str, inner_text: str, null: str | None) -> DataType:
    root, nullable = TypeRoot(name.upper()), "NOT" not in (null or "").upper()
    if root is TypeRoot.ROW:
        return DataType(root=root, nullable=nullable, fields=parse_columns(inner_text).fields)
    parts = split_outside_brackets(inner_text, *_BRACKETS_AND_QUOTES)
    if root is TypeRoot.VECTOR and len(parts) == 2 and parts[1].strip().isdecimal():
        return vector_type(parse_data_type(parts[0]), int(parts[1]), nullable=nullable)
    if len(parts) != (1 if root is TypeRoot.ARRAY else 2):
        raise _no_type_error(text)
    *key, element = map(parse_data_type, parts)
    return DataType(root=root, nullable=nullable, key=next(iter(key), None), element=element)


def vector_type(element: DataType, length: int, *, nullable: bool = True) -> DataType:
    """Return a VECTOR type.

    Raises:
        UsageError: the elements are not numbers or booleans, or there are none.
    """
    vector = DataType(root=TypeRoot.VECTOR, nullable=nullable, element=element, length=length)
    if element.root not in VECTOR_ELEMENTS or not 1 <= length <= STRING_MAX:
        raise _no_type_error(str(vector))
    return vector


def _base_type(name: str, first: int | None, second: int | None, *, zone: str) -> DataType | None:
    """Return the type of this name with up to two arguments; None if there is no such type."""
    if name in _NO_ARGUMENT and first is None and not zone:
        return DataType(root=_NO_ARGUMENT[name])
    if name in _LENGTH and second is None and not zone:
        root, default = _LENGTH[name]
        if name in ("STRING", "BYTES") and first is not None:
            return None
        length = default if first is None else first
        return DataType(root=root, length=length) if 1 <= length <= STRING_MAX else None
    if name in ("DECIMAL", "NUMERIC", "DEC") and not zone:
        precision, scale = 10 if first is None else first, second or 0
        is_valid = 1 <= precision <= DECIMAL_PRECISION_MAX and scale <= precision
        decimal = DataType(root=TypeRoot.DECIMAL, precision=precision, scale=scale)
        return decimal if is_valid else None
    if second is not None or (first or 0) > TIMESTAMP_PRECISION_MAX:
        return None
    if name == "TIME" and "LOCAL" not in zone:
        return DataType(root=TypeRoot.TIME, precision=first or 0)
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        has_local_zone = name == "TIMESTAMP_LTZ" or "LOCAL" in zone
        root = TypeRoot.TIMESTAMP_LTZ if has_local_zone else TypeRoot.TIMESTAMP
        return DataType(root=root, precision=6 if first is None else first)
    return None


def _no_type_error(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a column type",
        fix="use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), CHAR(n), "
        "VARCHAR(n), STRING, BINARY(n), VARBINARY(n), BYTES, DATE, TIME(p), TIMESTAMP(p) or "
        "TIMESTAMP_LTZ(p) with p from 0 to 9, ARRAY<type>, MAP<type, type>, VECTOR<number, n>, "
        "ROW<name type, ...> or VARIANT, each optionally with NOT NULL",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """A column, whose `field_id` survives renames and is never reused."""

    field_id: int
    name: str
    data_type: DataType
    description: str | None = None
    default_value: str | None = None

    def with_new_ids(self, ids: Iterator[int]) -> DataField:
        """Return the column with the next id, and inner fields with the ids after it."""
        return replace(self, field_id=next(ids), data_type=self.data_type.with_new_ids(ids))


def _field_text(field: DataField) -> str:
    comment_text = "" if field.description is None else f" COMMENT '{field.description}'"
    return f"`{field.name}` {field.data_type}{comment_text}"


@dataclass(frozen=True, slots=True)
class RowType:
    """The columns of a table or of its key, in order."""

    fields: tuple[DataField, ...]

    def __iter__(self) -> Iterator[DataField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[DataType, ...]:
        """The column types in order."""
        return tuple(field.data_type for field in self.fields)

    def field(self, name: str) -> DataField:
        """Return the column of a name; raise a KeyError without one."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def project(self, names: Sequence[str]) -> RowType:
        """Return the named columns, in the order of `names`."""
        return RowType(tuple(self.field(name) for name in names))

    def with_new_ids(self, first_id: int = 0) -> RowType:
        """Return the columns with ids in order, each before those of its inner fields."""
        ids = count(first_id)
        return RowType(tuple(field.with_new_ids(ids) for field in self.fields))

    @property
    def highest_id(self) -> int:
        """The largest id of columns and nested fields; -1 without any."""
        ids = (field_id for field in self.fields for field_id in field.data_type.field_ids())
        return max((*(field.field_id for field in self.fields), *ids), default=-1)


def parse_columns(text: str) -> RowType:
    """Parse ``id BIGINT NOT NULL, amount DECIMAL(12,2)`` to columns with ids from 0 on.

    Names may be quoted with backticks or double quotes.

    Raises:
        UsageError: a name or type is missing, a type is unknown, or a name occurs twice.
    """
    fields: list[DataField] = []
    names: set[str] = set()
    for index, part in enumerate(split_outside_brackets(text, *_BRACKETS_AND_QUOTES)):
        match = re.fullmatch(r'\s*(?:`([^`]+)`|"([^"]+)"|([^\s`"]+))\s+(.+?)\s*', part, re.DOTALL)
        if not match:
            raise UsageError(
                f"cannot read the column definition {part.strip()!r}",
                fix="write 'name TYPE [NOT NULL]', columns separated by commas",
            )
        name = match[1] or match[2] or match[3]
        if name in names:
            raise UsageError(f"the column {name!r} is defined twice", fix="name each column once")
        names.add(name)
        fields.append(DataField(field_id=index, name=name, data_type=parse_data_type(match[4])))
    return RowType(tuple(fields)).with_new_ids()
