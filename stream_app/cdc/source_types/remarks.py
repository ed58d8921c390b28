"""What a column of the source loses on its way, as its schema tells it: said for each column.

Pure. Each remark is known from a message's schema alone, before a value is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.cdc.column_drift import INEXACT
from stream_app.cdc.source_types.connect import SOURCE_LENGTH, SOURCE_SCALE, SOURCE_TYPE
from stream_app.cdc.source_types.stored_times import StoredType
from stream_app.model.schema.data_type import TypeRoot
from stream_app.model.schema.source_table import Remark

REPLACES_NULLS = "replace.null.with.default"
_CONNECT_TIMES = frozenset(
    f"org.apache.kafka.connect.data.{name}" for name in ("Time", "Timestamp")
)
_DURATIONS = frozenset(f"io.debezium.time.{name}" for name in ("MicroDuration", "NanoDuration"))
_MILLIS_DIGITS = 3
_UNITS = {"io.debezium.time.NanoTime": "nanoseconds"}


def column_remarks(
    stored: StoredType,
    literal: str,
    semantic: str,
    parameters: Mapping[str, str],
    *,
    may_lose_nulls: bool,
) -> tuple[Remark, ...]:
    """All remarks of one column.

    Args:
        literal, semantic, parameters: of its schema.
        may_lose_nulls: whether it may be null, has a DEFAULT, and nothing shows that nulls stay.
    """
    found = [*inexact_remarks(stored, _UNITS.get(semantic, "microseconds"))]
    if may_lose_nulls:
        found.append(
            Remark(
                "may be null and has a DEFAULT: unless the connector's converter keeps nulls, a "
                "null arrives as the DEFAULT, and no message shows it",
                "set value.converter.replace.null.with.default = false in the connector "
                "(ignore.default.for.nullables = true in Confluent's Avro converter), and {} = "
                "'false' here to say so",
                REPLACES_NULLS,
            )
        )
    return (*found, *_lost_by_connector(literal, semantic, parameters))


def inexact_remarks(stored: StoredType, unit: str = "microseconds") -> Iterator[Remark]:
    """That a time of day is no TIME, or loses digits as one."""
    if not stored.alternatives:
        return
    root = stored.data_type.root
    if root is TypeRoot.TIME:
        yield Remark(
            "has microseconds at the source, and Paimon's TIME keeps milliseconds: digits below "
            "them are cut off",
            "set {} = 'number' or 'string' before the table is made",
            INEXACT,
        )
        return
    held = f"BIGINT, {unit} since midnight" if root is TypeRoot.BIGINT else "STRING"
    yield Remark(
        f"is {held}, because Paimon's TIME keeps milliseconds and the source has more",
        "nothing is lost; {} = 'string' or 'truncate' gives new tables a text, or a TIME that "
        "cuts digits off",
        INEXACT,
    )


def _lost_by_connector(
    literal: str, semantic: str, parameters: Mapping[str, str]
) -> Iterator[Remark]:
    """What the connector has lost before a message is written."""
    source = str(parameters.get(SOURCE_TYPE, "")).upper()
    if literal == "int64" and source.startswith("BIGINT UNSIGNED"):
        yield Remark(
            "is unsigned, and the connector sends it signed: values from 2^63 on arrive negative",
            "set bigint.unsigned.handling.mode = precise in the connector",
        )
    if literal in ("double", "float64") and source.startswith(("NUMERIC", "DECIMAL")):
        yield Remark(
            f"is {source} at the source, and the connector sends the nearest floating-point number",
            "set decimal.handling.mode = precise or string in the connector",
        )
    digits = max(_number(parameters, SOURCE_SCALE), _number(parameters, SOURCE_LENGTH))
    if semantic in _CONNECT_TIMES and source and _MILLIS_DIGITS < digits <= 9:
        yield Remark(
            f"has {digits} digits of a second at the source, and the connector sends milliseconds",
            "set time.precision.mode = adaptive in the connector",
        )
    if semantic in _DURATIONS:
        yield Remark(
            "is an interval, which the connector sends as a number: months and years become days "
            "of an average month",
            "set interval.handling.mode = string in the connector, unless it has neither",
        )


def _number(parameters: Mapping[str, str], name: str) -> int:
    text = str(parameters.get(name, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
