"""Gives messages with a schema's number of eight bytes to a format that reads four.

Apicurio's older serializers write such numbers. They count schemas, so that the first four bytes
are zero; these are cut out of keys and values. Other messages are bad. Bad records get the bytes
back with which they came.

Source: Apicurio Registry's `Legacy8ByteIdHandler.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import (
    bytes_of,
    lengths_of,
    null_where,
    offsets_of,
    slices_of,
    valid_of,
)
from stream_app.cdc.bad_records_as_received import as_received
from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import (
    Format,
    FormatSetup,
    MessageFormat,
    SourceFacts,
    SourceSurvey,
)
from stream_app.cdc.wire.registry_options import has_wide_numbers
from stream_app.cdc.wire.wire_format import MAGIC
from stream_app.model.source.mapping_options import MappingOptions

_HEAD = 9
_CUT = 4


@dataclass(frozen=True, slots=True)
class _Narrowing:
    """Implements `message_format.MessageFormat`."""

    of: MessageFormat

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`."""
        decoded = self.of.decode(narrowed(messages))
        return replace(decoded, bad=as_received(decoded.bad, messages))


def narrowed(messages: pa.RecordBatch) -> pa.RecordBatch:
    """The messages with numbers of four bytes."""
    for name in {"key", "value"}.intersection(messages.schema.names):
        at = messages.schema.get_field_index(name)
        column = _narrowed(messages.column(at).cast(pa.binary()))
        messages = messages.set_column(at, pa.field(name, pa.binary()), column)
    return messages


def _narrowed(cells: pa.Array) -> pa.Array:
    filled = cells.fill_null(b"") if cells.null_count else cells
    offsets, data = offsets_of(filled).astype(np.int64), bytes_of(filled)
    rows = np.flatnonzero(lengths_of(filled) >= _HEAD)
    begins = offsets[rows]
    # The magic byte moves to the place before the last four bytes of the number.
    zeros = data[begins[:, None] + np.arange(1 + _CUT)]
    wide = np.zeros(len(filled), np.bool_)
    wide[rows] = (zeros == MAGIC).all(axis=1)
    starts = np.where(wide, offsets[:-1] + _CUT, offsets[:-1])
    bodies = slices_of(data, starts, np.where(_has_magic(filled) & ~wide, starts, offsets[1:]))
    return null_where(bodies, ~valid_of(cells)) if cells.null_count else bodies


def _has_magic(cells: pa.Array) -> Any:
    offsets, data = offsets_of(cells).astype(np.int64), bytes_of(cells)
    some = np.flatnonzero(lengths_of(cells) > 0)
    has = np.zeros(len(cells), np.bool_)
    has[some] = data[offsets[some]] == MAGIC
    return has


def with_wide_numbers(of: Format) -> Format:
    """The same format of a registry, which reads wide numbers too where its options say so."""
    return replace(
        of,
        make=partial(_made, of),
        survey=partial(_survey, of),
        facts=partial(_facts, of),
    )


def _made(of: Format, setup: FormatSetup) -> MessageFormat:
    made = of.make(setup)
    return _Narrowing(made) if has_wide_numbers(setup.options) else made


def _survey(of: Format, setup: FormatSetup, messages: Mapping[str, pa.RecordBatch]) -> SourceSurvey:
    if has_wide_numbers(setup.options):
        messages = {topic: narrowed(batch) for topic, batch in messages.items()}
    return of.survey(setup, messages)


def _facts(of: Format, options: Mapping[str, str]) -> SourceFacts:
    facts = of.facts(options)
    if not has_wide_numbers(options):
        return facts
    source = _NarrowingSource(facts)
    return SourceFacts(
        origins=source.origins,
        describe=source.describe,
        versions=source.versions if facts.versions else None,
        change_times=source.change_times if facts.change_times else None,
    )


@dataclass(frozen=True, slots=True)
class _NarrowingSource:
    of: SourceFacts

    def origins(self, messages: pa.RecordBatch) -> Any:
        """See `message_format.SourceFacts`."""
        return self.of.origins(narrowed(messages))

    def describe(self, messages: pa.RecordBatch, options: MappingOptions) -> Any:
        """See `message_format.SourceFacts`."""
        return self.of.describe(narrowed(messages), options)

    def versions(self, messages: pa.RecordBatch, options: MappingOptions) -> Any:
        """See `message_format.SourceFacts`."""
        assert self.of.versions is not None
        return self.of.versions(narrowed(messages), options)

    def change_times(self, messages: pa.RecordBatch) -> pa.Array:
        """See `message_format.SourceFacts`."""
        assert self.of.change_times is not None
        return self.of.change_times(narrowed(messages))
