"""Builds a JSON format from its dialect: its declaration, and its decoding to row changes.

The dialect parses records of the same shape in columns, and `images` makes their rows. It reads
other records one by one, and `record_images` makes their rows. `decoder` numbers these steps. A
message is stored whole or not at all: one bad record makes it bad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.change_batch import DecodedBatch, present_values, schema_of_changes
from stream_app.cdc.column_drift import DriftedColumn, DriftReaction, Sighting
from stream_app.cdc.columns.column_reading import Encoding
from stream_app.cdc.columns.connect_readings import apply_schema
from stream_app.cdc.columns.json_lines import parse_objects
from stream_app.cdc.json_records.batch_outcome import (
    BatchOutcome,
    ColumnarPart,
    ColumnarResult,
    OneByOneResult,
)
from stream_app.cdc.json_records.changed_columns import first_values_after
from stream_app.cdc.json_records.compiled_messages import parse_messages
from stream_app.cdc.json_records.decoder import (
    PlacedValues,
    SchemaGroup,
    ShapeDecoder,
)
from stream_app.cdc.json_records.decoder_choice import ARRAYS, DECODER, compiled_layouts
from stream_app.cdc.json_records.dialect import (
    Change,
    Dialect,
    DialectTable,
    NoRow,
    ParsedMessages,
    ParsedRecords,
    Truncate,
    read_message,
)
from stream_app.cdc.json_records.dialect_description import describe, versions
from stream_app.cdc.json_records.drift_search import drift_by_hashes, drift_in, records_to_search
from stream_app.cdc.json_records.json_options import (
    CheckedOptions,
    column_readings,
    parse_format_options,
)
from stream_app.cdc.json_records.layout_chooser import LayoutChooser
from stream_app.cdc.json_records.message_survey import survey
from stream_app.cdc.json_records.record_shapes import RecordShape
from stream_app.cdc.message_format import (
    DdlOf,
    FormatDeclaration,
    FormatSetup,
    MessageFormat,
    SourceExtractor,
    promises_nothing,
)
from stream_app.cdc.rows.images import ImageRows, RowRules, rows_of_images
from stream_app.cdc.source_tables import Origins, first_records
from stream_app.cdc.source_types.connect_fields import ConnectField
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import DataType, RowType


class DialectDecoder:
    """A decoder of one dialect's messages. Implements `MessageFormat` and `ValueDecoder`."""

    def __init__(
        self,
        dialect: Dialect,
        section: str,
        setup: FormatSetup,
        checked_options: CheckedOptions,
        default_encoding_of: Callable[[DataType], Encoding],
        fields: Mapping[str, ConnectField] | None = None,
    ) -> None:
        """Read messages of this dialect.

        Args:
            default_encoding_of: returns the encoding of a column, by its type.
            fields: the columns as a schema of the messages describes them; None without a schema.
        """
        self._dialect = dialect
        self._section = section
        self._checked_options = checked_options
        self._policy = checked_options.column_policy(setup.columns)
        self._table = DialectTable(
            readings=apply_schema(
                column_readings(setup, checked_options.encodings, default_encoding_of),
                fields or {},
                checked_options.encodings,
            ),
            columns=frozenset(setup.columns.names),
            keys=frozenset(setup.primary_keys),
            reads_tables=not setup.traits.merges_shards,
        )
        self._rules = RowRules(
            schema=schema_of_changes(setup.arrow_schema),
            keeps_update_before=setup.keeps_update_before,
            before_has_key_only=dialect.sends_keys_alone,
            cut_reaction=self._policy.cut_reaction,
        )
        self._group = SchemaGroup(self._table.readings)
        layouts = compiled_layouts(checked_options.values.get(DECODER, ARRAYS))
        # The parser of keys has another type for decimals than machine code.
        has_decimal_keys = any(
            reading.holds_decimals and reading.name in dialect.key_columns
            for reading in self._table.readings
        )
        self._layout_chooser = (
            None if layouts is None or has_decimal_keys else LayoutChooser(layouts.images)
        )

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` reads the messages' keys."""
        return bool(self._dialect.key_columns)

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            WrongSourceError: a TRUNCATE with ``truncate = error``, or a record whose columns differ
                from the table's, if the options say so.
        """
        values, message_indices = present_values(messages)
        outcome = BatchOutcome(
            messages=messages,
            section=self._section,
            policy=self._policy,
            on_truncate=self._checked_options.on_truncate,
            skipped_count=messages.num_rows - len(values),
        )
        marker = self._dialect.schema_marker
        if marker and self._policy.unknown_reaction is DriftReaction.EVOLVE:
            schemas = first_values_after(values, marker).items()
            outcome.learn_schemas(
                {
                    sha256(schema).hexdigest(): int(message_indices[index])
                    for schema, index in schemas
                }
            )
        decoder = ShapeDecoder(self, self._dialect.images_of, self._policy, self._group, outcome)
        decoder.decode(values, message_indices)
        return outcome.decoded_batch(self._rules.schema, {})

    def decode_fast(self, placed_values: PlacedValues, group: SchemaGroup) -> ColumnarPart | None:
        """Decode values by machine code; see `ValueDecoder.decode_fast`."""
        if self._layout_chooser is None:
            return None
        shape = group.learn_shape(placed_values.values, self._policy, self._dialect.images_of)
        fields = self._dialect.fields(self._table, shape.json_kinds)
        compiled_messages = parse_messages(
            placed_values.values, shape, fields, self._layout_chooser
        )
        if compiled_messages is None:
            return None
        part = placed_values.take(compiled_messages.indices)
        messages = ParsedMessages(
            part.values, self._keys(part), compiled_messages.columns, compiled_messages.nulls
        )
        return ColumnarPart(
            compiled_messages.indices,
            self._columnar_result(messages, shape, compiled_messages.drift_hashes),
        )

    def decode_whole(
        self, placed_values: PlacedValues, shape: RecordShape
    ) -> ColumnarResult | None:
        """See `ValueDecoder.decode_whole`."""
        fields = self._dialect.fields(self._table, shape.json_kinds)
        columns = None if fields is None else parse_objects(placed_values.values, fields.schema())
        if columns is None:
            return None
        messages = ParsedMessages(placed_values.values, self._keys(placed_values), columns)
        return self._columnar_result(messages, shape)

    def _columnar_result(
        self, messages: ParsedMessages, shape: RecordShape, drift_hashes: Int64s | None = None
    ) -> ColumnarResult:
        values, readings = messages.values, shape.readings
        parsed_records = self._dialect.parsed_records(messages, self._table, shape.json_kinds)
        image_rows = _rows_of_messages(
            rows_of_images(parsed_records.images, readings, self._rules), parsed_records
        )
        drift: Mapping[DriftedColumn, Sighting] = {}
        if self._policy.reports_drift:
            drift = self._drift(values, parsed_records, image_rows.is_suspect, drift_hashes)
        return ColumnarResult(image_rows, questions=None, drift=drift)

    def decode_one_by_one(
        self, placed_values: PlacedValues, group: SchemaGroup, outcome: BatchOutcome
    ) -> None:
        """See `ValueDecoder.decode_one_by_one`."""
        keys = self._keys(placed_values)

        def read_value(value_index: int, value: bytes) -> Change | Truncate | NoRow:
            key = None if keys is None else keys[value_index].as_py()
            return read_message(self._dialect, value, key, self._table)

        result = OneByOneResult()
        changes = result.read_changes(placed_values.values, read_value, self._policy)
        reads_tables = self._table.reads_tables
        result.add_rows(changes, group.readings, self._rules, reads_tables=reads_tables)
        outcome.add_one_by_one(result, placed_values.message_indices)

    def _keys(self, placed_values: PlacedValues) -> pa.Array | None:
        if not self.reads_keys:
            return None
        if "key" not in placed_values.messages.schema.names:
            return pa.nulls(len(placed_values.message_indices), pa.binary())
        return placed_values.messages.column("key").take(pa.array(placed_values.message_indices))

    def _drift(
        self,
        values: pa.Array,
        parsed_records: ParsedRecords,
        is_suspect: Bools,
        drift_hashes: Int64s | None,
    ) -> Mapping[DriftedColumn, Sighting]:
        searched_records = records_to_search(values, parsed_records, is_suspect)
        search = (
            drift_in
            if drift_hashes is None
            else partial(drift_by_hashes, drift_hashes=drift_hashes)
        )
        sightings = search(
            searched_records, columns=self._table.columns, images_of=self._dialect.images_of
        )
        return self._policy.reported(sightings)


def _rows_of_messages(image_rows: ImageRows, parsed_records: ParsedRecords) -> ImageRows:
    """Convert rows of records to rows of messages; one bad record makes its message a suspect."""
    message_indices = parsed_records.message_indices
    if message_indices is None:
        return image_rows
    is_suspect = (
        np.zeros(0, np.bool_)
        if parsed_records.is_suspect is None
        else parsed_records.is_suspect.copy()
    )
    is_suspect[message_indices[image_rows.is_suspect]] = True
    is_good = ~is_suspect[message_indices[image_rows.record_indices]]
    is_wanted = ~is_suspect[message_indices]
    wanted_records = first_records(parsed_records.images.table_names, is_wanted)
    return replace(
        image_rows,
        rows=image_rows.rows if is_good.all() else image_rows.rows.filter(pa.array(is_good)),
        record_indices=message_indices[image_rows.record_indices[is_good]],
        is_suspect=is_suspect,
        tables={
            name: int(message_indices[record_index])
            for name, record_index in wanted_records.items()
        },
        cut_records={
            name: _message_mask(is_cut, message_indices, is_suspect)
            for name, is_cut in image_rows.cut_records.items()
        },
    )


def _message_mask(is_cut: Bools, message_indices: Int64s, is_suspect: Bools) -> Bools:
    has_record = np.zeros(len(is_suspect), np.bool_)
    has_record[message_indices[is_cut]] = True
    return has_record & ~is_suspect


def _accept_all(_options: CheckedOptions, _columns: RowType) -> None:
    """Accept all combinations, because the options of most formats are independent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectDeclaration:
    """The parts of a format's declaration that its dialect determines.

    Attributes:
        name, section, introduction, options: see `FormatDeclaration`.
        find_origins, find_change_times, ddl_of: see `SourceExtractor`.
        make_dialect: makes the dialect of a table's options.
        default_encoding_of: returns the encoding of a column, by its type.
        has_whole_before, has_changes, telltale_fields: see `FormatDeclaration`.
        check_together: raises `UsageError` when options do not fit each other or the columns.
    """

    name: str
    section: str
    introduction: str
    options: tuple[Option[Any], ...]
    find_origins: Callable[[pa.RecordBatch], Origins]
    make_dialect: Callable[[CheckedOptions], Dialect]
    default_encoding_of: Callable[[DataType], Encoding]
    find_change_times: Callable[[pa.RecordBatch], pa.Array] | None = None
    ddl_of: DdlOf | None = None
    has_whole_before: Callable[[Mapping[str, str]], bool] = promises_nothing
    has_changes: bool = True
    telltale_fields: tuple[frozenset[str], ...] = ()
    check_together: Callable[[CheckedOptions, RowType], None] = _accept_all

    def declaration(self) -> FormatDeclaration:
        """Return the format for the registry; its default dialect surveys and describes."""
        default_dialect = self.make_dialect(
            parse_format_options(self.name, self.section, self.options, {}, RowType(()))
        )
        return FormatDeclaration(
            name=self.name,
            section=self.section,
            introduction=self.introduction,
            options=self.options,
            check=self._parse_options,
            make=self._format,
            survey=partial(survey, default_dialect),
            make_source_extractor=partial(self._source_extractor, default_dialect),
            has_times=self.find_change_times is not None,
            has_whole_before=self.has_whole_before,
            has_changes=self.has_changes,
            telltale_fields=self.telltale_fields,
        )

    def _source_extractor(
        self, default_dialect: Dialect, _options: Mapping[str, str]
    ) -> SourceExtractor:
        return SourceExtractor(
            find_origins=self.find_origins,
            describe=partial(describe, default_dialect),
            find_versions=partial(versions, default_dialect),
            find_change_times=self.find_change_times,
            ddl_of=self.ddl_of,
        )

    def _parse_options(self, options: Mapping[str, str], columns: RowType) -> CheckedOptions:
        checked_options = parse_format_options(
            self.name, self.section, self.options, options, columns
        )
        self.check_together(checked_options, columns)
        return checked_options

    def _format(self, setup: FormatSetup) -> MessageFormat:
        checked_options = self._parse_options(setup.options, setup.columns)
        dialect = self.make_dialect(checked_options)
        return DialectDecoder(
            dialect, self.section, setup, checked_options, self.default_encoding_of
        )
