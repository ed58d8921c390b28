"""Encodes the checksum of a table's rows as a snapshot property."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.checksum.row_sum import RowSum
from stream_app.model.checksum.sum_record import SumRecord
from stream_app.model.snapshot import ROW_SUM_PROPERTY, Snapshot

_PROPERTY = f"snapshot's {ROW_SUM_PROPERTY}"


def encode_sum_record(record: SumRecord) -> str:
    """Return the property's text: ``{"origin": 0, "rows": 7, "sum": "…", "partitions": {…}}``."""
    document = {
        "origin": record.origin_id,
        "rows": record.total.row_count,
        "sum": record.total.digits,
    }
    if record.partitions is None:
        return orjson.dumps(document).decode()
    partitions = {
        name.hex(): {"rows": row_sum.row_count, "sum": row_sum.digits}
        for name, row_sum in sorted(record.partitions.items())
    }
    return orjson.dumps({**document, "partitions": partitions}).decode()


def _decode_record(text: str) -> SumRecord:
    """Decode the record of a property.

    Raises:
        CorruptFileError: the text has another form.
    """
    try:
        value = orjson.loads(text)
        document = JsonObject(value, file_kind=_PROPERTY)
        partitions = value.get("partitions")
        return SumRecord(
            origin_id=document.integer("origin"),
            total=_sum_of(value),
            partitions=None
            if partitions is None
            else {bytes.fromhex(name): _sum_of(row_sum) for name, row_sum in partitions.items()},
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptFileError(
            f"cannot read a {_PROPERTY}: {error}",
            fix="compute it again by stream-app analyze --checksum",
        ) from error


def sum_record_of(snapshot: Snapshot) -> SumRecord | None:
    """Return the record that a snapshot carries; None without one.

    Raises:
        CorruptFileError: the record cannot be read.
    """
    text = (snapshot.properties or {}).get(ROW_SUM_PROPERTY)
    return None if text is None else _decode_record(text)


def _sum_of(value: Mapping[str, object]) -> RowSum:
    document = JsonObject(value, file_kind=_PROPERTY)
    return RowSum.of_digits(document.integer("rows"), document.text("sum"))
