"""Rewrites messages with other heads for formats that read Confluent's wire format.

Options of the registry say how messages name their schemas: by numbers of eight bytes, or by GUIDs.
Keys and values get numbers of four bytes. Bad records get their received bytes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import (
    FormatDeclaration,
    FormatSetup,
    MessageFormat,
    SeenTableVersion,
    SourceExtractor,
    SourceSurvey,
)
from stream_app.cdc.schema_registry_port import NO_HEAD, HeaderKind, Registries
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.wire.bad_records_as_received import with_received_bytes
from stream_app.cdc.wire.registry_options import has_wide_numbers, header_kind, registry_schemas
from stream_app.cdc.wire.schema_guids import MAGIC_GUID, with_schema_numbers
from stream_app.cdc.wire.wide_schema_numbers import narrow_numbers
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable

_Rewrite = Callable[[pa.Array], pa.Array]
_RewriteOf = Callable[[Mapping[str, str]], _Rewrite | None]
_UNKNOWN_GUID = "names a schema by a GUID that the schema registry does not have"


def rewrite_of_heads(
    name: str, section: str, registries: Registries, options: Mapping[str, str]
) -> _Rewrite | None:
    """Return the function that makes Confluent's heads; None if messages already have them."""
    if has_wide_numbers(options):
        return narrow_numbers
    if header_kind(options) is HeaderKind.CONFLUENT:
        return partial(
            with_schema_numbers, schemas=registry_schemas(name, section, registries, options)
        )
    return None


def rewrite_keys_and_values(messages: pa.RecordBatch, rewrite: _Rewrite) -> pa.RecordBatch:
    """Return the messages with other keys and values."""
    for name in {"key", "value"}.intersection(messages.schema.names):
        column_index = messages.schema.get_field_index(name)
        column = rewrite(messages.column(column_index).cast(pa.binary()))
        messages = messages.set_column(column_index, pa.field(name, pa.binary()), column)
    return messages


@dataclass(frozen=True, slots=True)
class _RewritingFormat:
    """A format whose messages get Confluent's heads first. Implements `MessageFormat`."""

    inner_format: MessageFormat
    rewrite: _Rewrite

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`."""
        decoded_batch = self.inner_format.decode(rewrite_keys_and_values(messages, self.rewrite))
        return replace(
            decoded_batch,
            bad_records=_with_guids(with_received_bytes(decoded_batch.bad_records, messages)),
        )


def _with_guids(bad_records: pa.RecordBatch) -> pa.RecordBatch:
    """Return the bad records, with a reason of their own for GUIDs without a schema."""
    column_index = bad_records.schema.get_field_index("reason")
    has_guid = pc.starts_with(bad_records.column("value"), bytes([MAGIC_GUID])).fill_null(False)
    is_unknown = pc.and_(has_guid, pc.equal(bad_records.column(column_index), NO_HEAD))
    reasons = pc.if_else(is_unknown, _UNKNOWN_GUID, bad_records.column(column_index))
    return bad_records.set_column(column_index, bad_records.schema.field(column_index), reasons)


def with_any_heads(declaration: FormatDeclaration, registries: Registries) -> FormatDeclaration:
    """Return the same format of a registry, which reads other heads where its options say so."""
    rewrite_of = partial(rewrite_of_heads, declaration.name, declaration.section, registries)
    return replace(
        declaration,
        make=partial(_format_of, declaration, rewrite_of),
        survey=partial(_survey, declaration, rewrite_of),
        make_source_extractor=partial(_source_extractor, declaration, rewrite_of),
    )


def _format_of(
    declaration: FormatDeclaration, rewrite_of: _RewriteOf, setup: FormatSetup
) -> MessageFormat:
    inner_format, rewrite = declaration.make(setup), rewrite_of(setup.options)
    return inner_format if rewrite is None else _RewritingFormat(inner_format, rewrite)


def _survey(
    declaration: FormatDeclaration,
    rewrite_of: _RewriteOf,
    setup: FormatSetup,
    messages: Mapping[str, pa.RecordBatch],
) -> SourceSurvey:
    if (rewrite := rewrite_of(setup.options)) is not None:
        messages = {
            topic: rewrite_keys_and_values(batch, rewrite) for topic, batch in messages.items()
        }
    return declaration.survey(setup, messages)


def _source_extractor(
    declaration: FormatDeclaration, rewrite_of: _RewriteOf, options: Mapping[str, str]
) -> SourceExtractor:
    inner_extractor, rewrite = declaration.make_source_extractor(options), rewrite_of(options)
    if rewrite is None:
        return inner_extractor
    extractor = _RewritingSourceExtractor(inner_extractor, rewrite)
    return SourceExtractor(
        find_origins=extractor.find_origins,
        describe=extractor.describe,
        find_versions=extractor.find_versions if inner_extractor.find_versions else None,
        find_change_times=(
            extractor.find_change_times if inner_extractor.find_change_times else None
        ),
    )


@dataclass(frozen=True, slots=True)
class _RewritingSourceExtractor:
    """The functions of a `SourceExtractor` for messages that are rewritten first."""

    inner_extractor: SourceExtractor
    rewrite: _Rewrite

    def find_origins(self, messages: pa.RecordBatch) -> Origins:
        """See `message_format.SourceExtractor`."""
        return self.inner_extractor.find_origins(rewrite_keys_and_values(messages, self.rewrite))

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> SourceTable | None:
        """See `message_format.SourceExtractor`."""
        return self.inner_extractor.describe(
            rewrite_keys_and_values(messages, self.rewrite), options
        )

    def find_versions(
        self, messages: pa.RecordBatch, options: MappingOptions
    ) -> Sequence[SeenTableVersion]:
        """See `message_format.SourceExtractor`."""
        assert self.inner_extractor.find_versions is not None
        return self.inner_extractor.find_versions(
            rewrite_keys_and_values(messages, self.rewrite), options
        )

    def find_change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceExtractor`."""
        assert self.inner_extractor.find_change_times is not None
        return self.inner_extractor.find_change_times(
            rewrite_keys_and_values(messages, self.rewrite)
        )
