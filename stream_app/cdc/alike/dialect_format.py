"""The declaration of a format of JSON that its dialect makes: what all of them have alike.

A survey only looks: what becomes of a record is decided by the format, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from stream_app.cdc.alike.change_format import ChangeFormat, read_message
from stream_app.cdc.alike.description import describe, versions
from stream_app.cdc.alike.dialect import Change, Dialect, Table
from stream_app.cdc.alike.options import CheckedOptions, checked_options
from stream_app.cdc.change_batch import place
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.message_format import (
    Format,
    FormatSetup,
    MessageFormat,
    Notice,
    SourceReader,
    promises_nothing,
)
from stream_app.cdc.record_images import RecordImages, UnreadableRecordError
from stream_app.cdc.source_tables import Origins
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import DataType, RowType


def _fits_together(_checked: CheckedOptions, _columns: RowType) -> None:
    """Accept all options: those of most formats do not depend on each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFormat:
    """The parts of a format's declaration that come from its dialect.

    Attributes:
        name, section, introduction, options: as `Format` has them.
        origins, change_times: as `SourceReader` has them.
        dialect: makes the dialect of a table's options.
        encoding: of a column, by its type.
        has_whole_before, tells_changes, signs: as `Format` has them.
        check_together: raises `UsageError` when options do not fit each other or the columns.
    """

    name: str
    section: str
    introduction: str
    options: tuple[Option[Any], ...]
    origins: Callable[[pa.RecordBatch], Origins]
    dialect: Callable[[CheckedOptions], Dialect]
    encoding: Callable[[DataType], Encoding]
    change_times: Callable[[pa.RecordBatch], pa.Array] | None = None
    has_whole_before: Callable[[Mapping[str, str]], bool] = promises_nothing
    tells_changes: bool = True
    signs: tuple[frozenset[str], ...] = ()
    check_together: Callable[[CheckedOptions, RowType], None] = _fits_together

    def declared(self) -> Format:
        """The format for the registry; its dialect without options surveys and describes."""
        plain = self.dialect(
            checked_options(self.name, self.section, self.options, {}, RowType(()))
        )
        return Format(
            name=self.name,
            section=self.section,
            introduction=self.introduction,
            options=self.options,
            check=self._checked,
            make=self._made,
            survey=partial(survey, plain),
            reader=partial(self._reader, plain),
            tells_times=self.change_times is not None,
            has_whole_before=self.has_whole_before,
            tells_changes=self.tells_changes,
            signs=self.signs,
        )

    def _reader(self, plain: Dialect, _options: Mapping[str, str]) -> SourceReader:
        return SourceReader(
            origins=self.origins,
            describe=partial(describe, plain),
            versions=partial(versions, plain),
            change_times=self.change_times,
        )

    def _checked(self, options: Mapping[str, str], columns: RowType) -> CheckedOptions:
        checked = checked_options(self.name, self.section, self.options, options, columns)
        self.check_together(checked, columns)
        return checked

    def _made(self, setup: FormatSetup) -> MessageFormat:
        checked = self._checked(setup.options, setup.columns)
        return ChangeFormat(self.dialect(checked), self.section, setup, checked, self.encoding)


@dataclass(frozen=True, slots=True)
class Survey:
    """Implements `message_format.SourceSurvey`.

    Attributes:
        seen: for each topic its records that mean rows, with their places.
    """

    keys: frozenset[str]
    seen: Mapping[str, list[tuple[str, Change]]] = field(default_factory=dict)

    def tables(self) -> Counter[tuple[str, str]]:
        """Topic and name of a source table → its messages with rows."""
        return Counter(
            (topic, change.table) for topic, changes in self.seen.items() for _, change in changes
        )

    def notices(self) -> Iterator[Notice]:
        """One for each topic in which a row lacks a part of the primary key."""
        for changes in self.seen.values():
            notice = next(filter(None, (self._lacking(*record) for record in changes)), None)
            if notice is not None:
                yield notice

    def _lacking(self, where: str, change: Change) -> Notice | None:
        for record in change.records:
            lacking = sorted(name for name in self.keys if not _has(record, name))
            if lacking:
                return Notice(
                    what=f"a record lacks {', '.join(lacking)} of the primary key, and becomes a "
                    "bad record",
                    where=where,
                    fix="make columns that every message has the table's primary key; names are "
                    "compared with upper and lower case",
                )
        return None


def _has(record: RecordImages, name: str) -> bool:
    return all(name in image for image in (record.before, record.after) if image is not None)


def survey(dialect: Dialect, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> Survey:
    """Look at a few messages of each topic."""
    table = Table(
        readings=(),
        columns=frozenset(setup.columns.names),
        keys=frozenset(setup.primary_keys),
        reads_tables=True,
    )
    seen = {topic: _changes(dialect, batch, table) for topic, batch in messages.items()}
    return Survey(table.keys, {topic: changes for topic, changes in seen.items() if changes})


def _changes(dialect: Dialect, messages: pa.RecordBatch, table: Table) -> list[tuple[str, Change]]:
    changes = []
    for at, message in enumerate(messages.select(["key", "value"]).to_pylist()):
        if message["value"] is None:
            continue
        try:
            change = read_message(dialect, message["value"], message["key"], table)
        except UnreadableRecordError:
            continue
        if isinstance(change, Change):
            changes.append((place(messages, at), change))
    return changes
