"""Finds the messages that carry a statement of the source, such as an ALTER TABLE.

Such a message means no row. A dialect says where it has the statement; `cdc.ddl.ddl_parser` reads
its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int32s, bools_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.json_message import JsonNumber, load_document
from stream_app.cdc.message_format import DdlOf, DdlText
from stream_app.cdc.source_tables import NO_TABLE

_DDL_FIELDS = ('"ddl"', '"sql"')


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlMessage:
    """A message with a statement, and its place in the source."""

    topic: str
    partition_number: int
    offset: int
    ddl: DdlText


def may_carry_ddl(messages: pa.RecordBatch, codes: Int32s) -> Bools:
    """Return the mask of messages that may carry a statement: bool [n].

    Args:
        codes: of `Origins`; only messages without a table are looked at.
    """
    mask: Bools = codes == NO_TABLE
    if mask.any():
        mask[mask] = _may_have_ddl(messages.column("value").filter(pa.array(mask)))
    return mask


def _may_have_ddl(values: pa.Array) -> Bools:
    may_have = np.zeros(len(values), np.bool_)
    for field in _DDL_FIELDS:
        may_have |= bools_of(pc.match_substring(values, pattern=field))
    return may_have


def ddl_messages(messages: pa.Table, ddl_of: DdlOf) -> Iterator[DdlMessage]:
    """Yield the statements in messages, in the order of the table."""
    may_have_ddl = _may_have_ddl(messages.column("value").combine_chunks())
    for row in messages.filter(pa.array(may_have_ddl)).to_pylist():  # a loop over statements
        try:
            document = load_document(row["value"])
        except UnreadableRecordError:
            continue
        if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
            document = document["payload"]
        ddl = ddl_of(document) if isinstance(document, dict) else None
        if ddl is not None:
            yield DdlMessage(
                topic=row["topic"], partition_number=row["partition"], offset=row["offset"], ddl=ddl
            )


def text_at(document: dict[str, Any], database_field: str, text_field: str) -> DdlText | None:
    """Return the statement in one field with the database in another; None without a statement."""
    sql, database = document.get(text_field), document.get(database_field)
    if not isinstance(sql, str) or isinstance(sql, JsonNumber) or not sql:
        return None
    return DdlText(database if isinstance(database, str) else "", sql)
