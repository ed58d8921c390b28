"""Turns messages into rows of a table: a decoder, followed by steps in a fixed order.

1. `OwnMessageDecoder` chooses the messages, in a job of one table.
2. A decoder, which is a format, turns them into changes.
3. Each step adapts the results to what the table takes. `StepPlace` has their order.

A decoder and the steps report the records that they cannot process. Any other exception is a bug of
stream_app, or an unknown limit of a library. Then the batch is halved until the failing records are
isolated. These become bad records, and the others continue.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, auto
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import (
    DecodedBatch,
    bad_records_with_reasons,
    join_results,
    no_changes,
    results_in_batch,
)
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline_steps.own_message_decoder import (
    EVERY_SOURCE,
    OwnMessageDecoder,
    SourceFilter,
)
from stream_app.errors import StreamAppError

_SHOWN_LENGTH_MAX = 200


class StepPlace(IntEnum):
    """The order of the steps, with the reason for each place."""

    COLUMN_ALIASES = auto()
    """Gives columns the table's names, which all later steps use."""
    DESCRIBED_COLUMNS = auto()
    """Comes before the steps that refuse records, because their schemas have all columns. A record
    that the decoder refuses shows only types."""
    MADE_COLUMNS = auto()
    """Computes columns from what the source has sent, so it comes before the table's defaults."""
    DEFAULTS = auto()
    """Fills all columns, because the filters judge the row that the table would store."""
    FILTER_OF_MESSAGES = auto()
    """Conditions on columns that all changes of a row share; they choose among messages."""
    FILTER_OF_ROWS = auto()
    """The other conditions. A row that does not pass may have any value and partition."""
    EXPECTATIONS = auto()
    """Judge only the rows that belong into the table."""
    MERGEABLE_VALUES = auto()
    """A value that no merge can take must not reach a writer."""
    NAMEABLE_PARTITIONS = auto()
    """A partition whose folder can have no name must not reach a writer."""
    NAMED_PARTITIONS = auto()
    """A partition that is null must not reach a writer, though the decoder may accept it."""
    LOOKUP_HINTS = auto()
    """Comes after the steps that judge keys, because it completes their reasons."""
    DATED_PARTITIONS = auto()
    """Reads dates from whole partitions, so those that are null must be gone."""
    NARROWED_COLUMNS = auto()
    """Judges the source's types of columns, and only in records that no step before has refused."""
    INSERTS_ONLY = auto()
    """Comes last, because it may stop the job. A bad or filtered record must not stop the job."""


class Step(Protocol):
    """A step that adapts the results of a batch of messages. Can be pickled."""

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch, /) -> DecodedBatch:
        """Process each message independently: no result depends on another message.

        Args:
            messages: the messages that were decoded; columns of `change_batch.MESSAGE_SCHEMA`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A decoder, followed by steps that adapt its results. Implements `MessageFormat`.

    Attributes:
        decoder: reads the messages; without messages it returns the schema of its rows.
        steps: in the order of their places.
        own_message_decoder: chooses the messages; None takes all messages.
    """

    decoder: MessageFormat
    steps: Mapping[StepPlace, Step] = field(default_factory=dict)
    own_message_decoder: OwnMessageDecoder | None = None

    def with_steps(self, added_steps: Mapping[StepPlace, Step | None]) -> Pipeline:
        """Return the same pipeline with further steps; ignores steps that are None."""
        steps = {
            **self.steps,
            **{place: step for place, step in added_steps.items() if step is not None},
        }
        return replace(self, steps=dict(sorted(steps.items())))

    @property
    def source_filter(self) -> SourceFilter:
        """The source tables whose records the pipeline accepts."""
        return (
            EVERY_SOURCE
            if self.own_message_decoder is None
            else self.own_message_decoder.source_filter
        )

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently; see `MessageFormat.decode`.

        Raises:
            StreamAppError: the decoder or a step stops the job.
        """
        if self.own_message_decoder is None:
            return self._decode_isolating(messages)
        return self.own_message_decoder.decode_accepted(messages, self._decode_isolating)

    def _decode_isolating(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode messages; a message at which the decoder or a step fails becomes a bad record."""
        try:
            return self._decode_with_steps(messages)
        except StreamAppError:
            raise
        except Exception as error:
            if not messages.num_rows:
                raise
            reason = _decoder_failure(error)
        # Outside of `except`: after a MemoryError, the error's frames must not hold their memory.
        if messages.num_rows == 1:
            schema = self._decode_with_steps(messages.slice(0, 0)).changes.rows.schema
            bad_records = bad_records_with_reasons(messages, {0: reason})
            return DecodedBatch(
                changes=no_changes(schema),
                bad_records=bad_records,
                skipped_count=0,
                decoder_error_count=1,
            )
        half = messages.num_rows // 2
        left, right = (
            self._decode_isolating(part) for part in (messages.slice(0, half), messages.slice(half))
        )
        right_indices = np.arange(half, messages.num_rows, dtype=np.int32)
        return join_results(left, results_in_batch(right, right_indices))

    def _decode_with_steps(self, messages: pa.RecordBatch) -> DecodedBatch:
        decoded_batch = self.decoder.decode(messages)
        for step in self.steps.values():
            decoded_batch = step(decoded_batch, messages)
        return decoded_batch


def _decoder_failure(error: Exception) -> str:
    """Return the error and the place where it was raised, as a reason for the quarantine."""
    [*_, innermost] = traceback.extract_tb(error.__traceback__, limit=-1)
    error_line = (str(error).splitlines() or [""])[0][:_SHOWN_LENGTH_MAX]
    return (
        f"the decoder failed with {type(error).__name__}: {error_line} "
        f"({innermost.name}, {innermost.filename.rpartition('/')[2]}:{innermost.lineno})"
    )
