"""Examines a few messages of each topic: the tables that they name, and missing key columns.

`dialect_format` calls it with a dialect of default options. It only reports; the format decides how
each record is treated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import message_place
from stream_app.cdc.json_records.dialect import Change, Dialect, DialectTable, read_message
from stream_app.cdc.message_format import FormatSetup, Notice
from stream_app.cdc.rows.record_images import RecordImages


@dataclass(frozen=True, slots=True)
class MessageSurvey:
    """A survey of a dialect's messages. Implements `message_format.SourceSurvey`.

    Attributes:
        keys: the columns of the primary key.
        changes_of: for each topic its records that mean rows, with their places.
    """

    keys: frozenset[str]
    changes_of: Mapping[str, list[tuple[str, Change]]] = field(default_factory=dict)

    def tables(self) -> Counter[tuple[str, str]]:
        """Return topic and name of a source table → its messages with rows."""
        return Counter(
            (topic, change.table)
            for topic, changes in self.changes_of.items()
            for _, change in changes
        )

    def notices(self) -> Iterator[Notice]:
        """Yield a notice for each topic in which a row lacks a part of the primary key."""
        for changes in self.changes_of.values():
            notice = next(
                filter(None, (self._missing_key_notice(*record) for record in changes)), None
            )
            if notice is not None:
                yield notice

    def _missing_key_notice(self, where: str, change: Change) -> Notice | None:
        for record in change.records:
            missing_columns = sorted(name for name in self.keys if not _has_column(record, name))
            if missing_columns:
                return Notice(
                    problem=f"a record lacks {', '.join(missing_columns)} of the primary key, and "
                    "becomes a bad record",
                    where=where,
                    fix="give the table a primary key of columns that every message has; names of "
                    "columns are case-sensitive",
                )
        return None


def _has_column(record: RecordImages, name: str) -> bool:
    return all(name in image for image in (record.before, record.after) if image is not None)


def survey(
    dialect: Dialect, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]
) -> MessageSurvey:
    """Look at a few messages of each topic."""
    table = DialectTable(
        readings=(),
        columns=frozenset(setup.columns.names),
        keys=frozenset(setup.primary_keys),
        reads_tables=True,
    )
    changes_of = {topic: _changes(dialect, batch, table) for topic, batch in messages.items()}
    return MessageSurvey(
        table.keys, {topic: changes for topic, changes in changes_of.items() if changes}
    )


def _changes(
    dialect: Dialect, messages: pa.RecordBatch, table: DialectTable
) -> list[tuple[str, Change]]:
    changes = []
    for message_index, message in enumerate(messages.select(["key", "value"]).to_pylist()):
        if message["value"] is None:
            continue
        try:
            change = read_message(dialect, message["value"], message["key"], table)
        except UnreadableRecordError:
            continue
        if isinstance(change, Change):
            changes.append((message_place(messages, message_index), change))
    return changes
