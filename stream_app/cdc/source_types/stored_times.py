"""Chooses the type in which a source's time of day is stored, if Paimon's TIME cannot hold it.

Paimon keeps milliseconds of a TIME, whatever its precision is. So a source's microseconds or
nanoseconds become a number or a text, unless ``inexact = truncate`` asks for TIME.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.schema.data_type import STRING, DataType, TypeRoot
from stream_app.model.source.mapping_options import InexactTimes, MappingOptions

_BIGINT = DataType(root=TypeRoot.BIGINT)
_HELD_DIGITS = 3


@dataclass(frozen=True, slots=True)
class StoredType:
    """The type of a column for a type of the source.

    Attributes:
        alternatives: types that an older table, or one of another choice, may have instead.
    """

    data_type: DataType
    alternatives: tuple[DataType, ...] = ()


def stored_type(
    data_type: DataType,
    options: MappingOptions,
    *,
    digits: int | None = None,
    sends_text: bool = False,
) -> StoredType:
    """Return the type that stores each value of the source exactly, or as ``inexact`` says.

    Args:
        data_type: the nearest type of Paimon.
        digits: the fractional digits of the source's time of day, or None for the type's precision.
        sends_text: whether the messages write such a time as text, and not as a count.
    """
    if data_type.root is TypeRoot.VARIANT:
        return StoredType(data_type, (STRING,))
    if data_type.root is not TypeRoot.TIME or (digits or data_type.precision) <= _HELD_DIGITS:
        return StoredType(data_type)
    exact_type = STRING if sends_text or options.inexact is InexactTimes.STRING else _BIGINT
    stored_data_type = data_type if options.inexact is InexactTimes.TRUNCATE else exact_type
    return StoredType(stored_data_type, (data_type, _BIGINT, STRING))
