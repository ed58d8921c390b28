"""A column's DEFAULT, which the schema keeps as text, as a value of the column.

Source: Paimon `utils/DefaultValueUtils.java`.
"""

from __future__ import annotations

import pyarrow as pa

from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.rules import can_be_read_as, read_as
from stream_app.model.schema.data_type import STRING, DataType


def default_value(text: str, data_type: DataType) -> pa.Array:
    """The value: an array of one.

    Raises:
        CastError: the text is no value of the type.
    """
    if text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    if not can_be_read_as(STRING, data_type):
        raise CastError(f"{data_type} takes none")
    return read_as(pa.array([text]), STRING, data_type)
