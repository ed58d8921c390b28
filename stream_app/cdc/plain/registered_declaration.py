"""Declares a format of rows whose schema is in a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stream_app.cdc.json_records.json_options import (
    ENCODING_OPTION,
    SOURCE_COLUMN_OPTIONS,
    CheckedOptions,
    parse_format_options,
)
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    MessageFormat,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.plain.key_options import (
    KEY_COLUMNS,
    KEY_COLUMNS_OPTION,
    KEY_FORMAT,
    KEY_FORMAT_OPTION,
    TOMBSTONES,
    TOMBSTONES_OPTION,
    check_key_columns,
    has_text_keys,
)
from stream_app.cdc.plain.plain_json import PLAIN_JSON
from stream_app.cdc.plain.registered_source_extractor import (
    RegisteredSourceExtractor,
    origins_of_topics,
)
from stream_app.cdc.schema_registry_port import Registries, Schemas
from stream_app.cdc.wire.registry_options import (
    REGISTRY_OPTIONS,
    check_urls,
    registry_schemas,
    without_registry,
)
from stream_app.cdc.wire.row_schema import DescribedRows, SchemaLanguage
from stream_app.cdc.wire.text_keys import TextKeyLanguage
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import RowType

OPTIONS: tuple[Option[Any], ...] = (
    *REGISTRY_OPTIONS,
    KEY_COLUMNS_OPTION,
    TOMBSTONES_OPTION,
    KEY_FORMAT_OPTION,
    *SOURCE_COLUMN_OPTIONS,
    ENCODING_OPTION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredDeclaration:
    """The parts of a format's declaration that its schema language determines.

    Attributes:
        name: the name of the format, and of the section of its options.
        extra_options: options beside those of all such formats.
        language: the language of the schemas.
        make: makes the format of a table.
    """

    name: str
    registries: Registries
    language: SchemaLanguage[DescribedRows]
    make: Callable[[Schemas, FormatSetup, CheckedOptions], MessageFormat]
    extra_options: tuple[Option[Any], ...] = ()

    @property
    def options(self) -> tuple[Option[Any], ...]:
        """All options."""
        return (*OPTIONS, *self.extra_options)

    def declaration(self) -> FormatDeclaration:
        """Return the format for the registry of formats."""
        return FormatDeclaration(
            name=self.name,
            section=self.name,
            introduction=f'for example `{self.name}."schema.registry.url" = '
            '"http://registry:8081"`. [Other formats](setup/formats.md#rows-with-a-schema) '
            "describes how the messages are read.",
            options=self.options,
            check=self._parse_options,
            make=self._format,
            survey=self._survey,
            make_source_extractor=self._source_extractor,
            has_times=False,
        )

    def _parse_options(self, options: Mapping[str, str], columns: RowType) -> CheckedOptions:
        checked_options = parse_format_options(self.name, self.name, self.options, options, columns)
        check_urls(self.name, self.name, self.registries, options)
        check_key_columns(self.name, self.name, checked_options, columns)
        return checked_options

    def _schemas(self, options: Mapping[str, str]) -> Schemas:
        return registry_schemas(self.name, self.name, self.registries, options)

    def _format(self, setup: FormatSetup) -> MessageFormat:
        checked_options = self._parse_options(setup.options, setup.columns)
        return self.make(self._schemas(setup.options), setup, checked_options)

    def _extractor(self, options: Mapping[str, str]) -> RegisteredSourceExtractor:
        checked_options = self._parse_options(options, RowType(()))
        key_language: SchemaLanguage[DescribedRows] = (
            TextKeyLanguage() if has_text_keys(checked_options) else self.language
        )
        return RegisteredSourceExtractor(
            self.language, key_language, self._schemas(options), checked_options.values[KEY_COLUMNS]
        )

    def _survey(self, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> SourceSurvey:
        """Look at the messages as JSON."""
        extractor = self._extractor(setup.options)
        options = without_registry(setup.options)
        for key in (TOMBSTONES, KEY_FORMAT):
            options.pop(key, None)
        json_messages = {topic: extractor.as_json(batch) for topic, batch in messages.items()}
        return PLAIN_JSON.survey(replace(setup, options=options), json_messages)

    def _source_extractor(self, options: Mapping[str, str]) -> SourceExtractor:
        extractor = self._extractor(options)
        return SourceExtractor(
            find_origins=origins_of_topics,
            describe=extractor.describe,
            find_versions=extractor.find_versions,
        )
