"""Defines the options of ``type-mapping``, which convert a source's types to column types.

The formats, which describe tables, and the rules for changes of columns use the options.

Source: Paimon `flink/action/cdc/TypeMapping.java`. ``no-change`` is of stream_app alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.errors import UsageError
from stream_app.model.near_names import known_names_text
from stream_app.model.schema.data_type import STRING, VARIANT, DataType


class MappingOption(enum.Enum):
    """An option, whose value is its name in the configuration."""

    TINYINT1_NOT_BOOL = "tinyint1-not-bool"
    TO_NULLABLE = "to-nullable"
    TO_STRING = "to-string"
    CHAR_TO_STRING = "char-to-string"
    LONGTEXT_TO_BYTES = "longtext-to-bytes"
    BIGINT_UNSIGNED_TO_BIGINT = "bigint-unsigned-to-bigint"
    DECIMAL_NO_CHANGE = "decimal-no-change"
    NO_CHANGE = "no-change"
    ALLOW_NON_STRING_TO_STRING = "allow-non-string-to-string"


class InexactTimes(enum.Enum):
    """The treatment of times of day that Paimon's TIME cannot store exactly."""

    NUMBER = "number"
    STRING = "string"
    TRUNCATE = "truncate"


class JsonColumns(enum.Enum):
    """The column type for a source's types ``json`` and ``jsonb``."""

    STRING = "string"
    VARIANT = "variant"


MEANINGS: dict[MappingOption, str] = {
    MappingOption.TINYINT1_NOT_BOOL: "MySQL's TINYINT(1) becomes TINYINT, else BOOLEAN.",
    MappingOption.TO_NULLABLE: "Only key columns are NOT NULL.",
    MappingOption.TO_STRING: "Every column becomes STRING.",
    MappingOption.CHAR_TO_STRING: "CHAR and VARCHAR become STRING.",
    MappingOption.LONGTEXT_TO_BYTES: "MySQL's LONGTEXT becomes BYTES, else STRING.",
    MappingOption.BIGINT_UNSIGNED_TO_BIGINT: "MySQL's BIGINT UNSIGNED becomes BIGINT, else "
    "DECIMAL(20, 0). A larger value makes a bad record.",
    MappingOption.DECIMAL_NO_CHANGE: "A DECIMAL column of the table keeps its type.",
    MappingOption.NO_CHANGE: "Every column of the table keeps its type; new columns are added.",
    MappingOption.ALLOW_NON_STRING_TO_STRING: "A column of the table that holds no text may become "
    "text.",
}


@dataclass(frozen=True, slots=True)
class MappingOptions:
    """The options that are set.

    Attributes:
        inexact: the treatment of inexact times (``inexact``, which Paimon does not have).
        json_columns: the type of JSON columns (``json-as``, which Paimon does not have).
    """

    options: frozenset[MappingOption] = frozenset()
    inexact: InexactTimes = InexactTimes.NUMBER
    json_columns: JsonColumns = JsonColumns.STRING

    def __contains__(self, option: MappingOption) -> bool:
        return option in self.options

    @property
    def document_type(self) -> DataType:
        """The type of a column for documents: a source's ``json`` or ``jsonb``."""
        return VARIANT if self.json_columns is JsonColumns.VARIANT else STRING


NO_MAPPING_OPTIONS = MappingOptions()


def parse_mapping_options(
    names: Iterable[str],
    *,
    inexact: InexactTimes = InexactTimes.NUMBER,
    json_columns: JsonColumns = JsonColumns.STRING,
    where: str = "type-mapping",
) -> MappingOptions:
    """Parse the names of options, ignoring case.

    Raises:
        UsageError: a name is unknown; the error suggests the nearest one.
    """
    options_by_name = {option.value: option for option in MappingOption}
    lower_names = [name.strip().lower() for name in names]
    unknown_names = [name for name in lower_names if name and name not in options_by_name]
    if unknown_names:
        raise UsageError(
            f"unknown type mapping {', '.join(map(repr, unknown_names))}",
            where=where,
            fix=known_names_text(unknown_names[0], options_by_name),
        )
    options = frozenset(options_by_name[name] for name in lower_names if name)
    return MappingOptions(options, inexact, json_columns)
