"""The declaration that all JSON formats made from a dialect share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from stream_app.cdc.alike.change_format import ChangeFormat
from stream_app.cdc.alike.description import describe, versions
from stream_app.cdc.alike.dialect import Dialect
from stream_app.cdc.alike.options import CheckedOptions, checked_options
from stream_app.cdc.alike.survey import survey
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.message_format import (
    Format,
    FormatSetup,
    MessageFormat,
    SourceReader,
    promises_nothing,
)
from stream_app.cdc.source_tables import Origins
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import DataType, RowType


def _fits_together(_checked: CheckedOptions, _columns: RowType) -> None:
    """Options that are right together when each is right by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFormat:
    """The parts of a format's declaration that come from its dialect.

    Attributes:
        name, section, introduction, options: as `Format` has them.
        origins, change_times: as `SourceReader` has them.
        dialect: makes the dialect of a table's options.
        plain: the dialect without options, which surveys and describes.
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
    plain: Dialect
    encoding: Callable[[DataType], Encoding]
    change_times: Callable[[pa.RecordBatch], pa.Array] | None = None
    has_whole_before: Callable[[Mapping[str, str]], bool] = promises_nothing
    tells_changes: bool = True
    signs: tuple[frozenset[str], ...] = ()
    check_together: Callable[[CheckedOptions, RowType], None] = _fits_together

    def declared(self) -> Format:
        """The format for the registry."""
        return Format(
            name=self.name,
            section=self.section,
            introduction=self.introduction,
            options=self.options,
            check=self._checked,
            make=self._made,
            survey=partial(survey, self.plain),
            reader=self._reader,
            tells_times=self.change_times is not None,
            has_whole_before=self.has_whole_before,
            tells_changes=self.tells_changes,
            signs=self.signs,
        )

    def _reader(self, _options: Mapping[str, str]) -> SourceReader:
        return SourceReader(
            origins=self.origins,
            describe=partial(describe, self.plain),
            versions=partial(versions, self.plain),
            change_times=self.change_times,
        )

    def _checked(self, options: Mapping[str, str], columns: RowType) -> CheckedOptions:
        checked = checked_options(self.name, self.section, self.options, options, columns)
        self.check_together(checked, columns)
        return checked

    def _made(self, setup: FormatSetup) -> MessageFormat:
        checked = self._checked(setup.options, setup.columns)
        return ChangeFormat(self.dialect(checked), self.section, setup, checked, self.encoding)
