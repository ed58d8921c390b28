"""Any format, so that a record at which its decoder fails harms nothing but itself.

`formats` puts it around every format. A decoder names the records that it cannot read. Any other
exception is a bug of stream_app, or an unknown limit of a library. Then the batch is halved until
such records stand alone: they are bad records, and the others are decoded.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import pyarrow as pa

from stream_app.cdc.change_batch import (
    ChangeBatch,
    DecodedBatch,
    bad_records,
    concat_changes,
    no_changes,
)
from stream_app.cdc.column_drift import sightings_together
from stream_app.cdc.message_format import MessageFormat
from stream_app.errors import StreamAppError

_SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class IsolatedDecode:
    """Implements `message_format.MessageFormat`.

    Attributes:
        decoder: reads the messages; without messages it gives the schema of its rows.
    """

    decoder: MessageFormat

    @property
    def reads_keys(self) -> bool:
        """See `MessageFormat.reads_keys`."""
        return self.decoder.reads_keys

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message for itself; see `MessageFormat.decode`.

        Raises:
            StreamAppError: what the decoder raises on purpose, to stop the job.
        """
        try:
            return self.decoder.decode(messages)
        except StreamAppError:
            raise
        except Exception as error:
            if not messages.num_rows:
                raise
            reason = _reason(error)
        # Outside of `except`: after a MemoryError, the error's frames must not hold their memory.
        if messages.num_rows == 1:
            return self._set_aside(messages, reason)
        half = messages.num_rows // 2
        return together(
            self.decode(messages.slice(0, half)), self.decode(messages.slice(half)), half
        )

    def _set_aside(self, message: pa.RecordBatch, reason: str) -> DecodedBatch:
        schema = self.decoder.decode(message.slice(0, 0)).changes.rows.schema
        return DecodedBatch(
            changes=no_changes(schema), bad=bad_records(message, {0: reason}), skipped=0,
            decoder_errors=1,
        )  # fmt: skip


def together(left: DecodedBatch, right: DecodedBatch, shift: int) -> DecodedBatch:
    """What came of two halves of a batch, of which the first has `shift` messages."""
    behind = ChangeBatch(rows=right.changes.rows, message_index=right.changes.message_index + shift)
    return DecodedBatch(
        changes=concat_changes(left.changes.rows.schema, [left.changes, behind]),
        bad=pa.concat_batches([left.bad, right.bad]),
        skipped=left.skipped + right.skipped,
        decoder_errors=left.decoder_errors + right.decoder_errors,
        tables={**{name: at + shift for name, at in right.tables.items()}, **left.tables},
        columns=sightings_together(left.columns, right.columns, shift),
        schemas={**{each: at + shift for each, at in right.schemas.items()}, **left.schemas},
        truncated=left.truncated if right.truncated is None else right.truncated + shift,
    )


def _reason(error: Exception) -> str:
    """What was raised, and where, for the quarantine."""
    [*_, innermost] = traceback.extract_tb(error.__traceback__, limit=-1)
    said = (str(error).splitlines() or [""])[0][:_SHOWN_MAX]
    return (
        f"the decoder failed with {type(error).__name__}: {said} "
        f"({innermost.name}, {innermost.filename.rpartition('/')[2]}:{innermost.lineno})"
    )
