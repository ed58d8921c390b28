"""The port that each CDC format implements, and the list of formats.

Called by the Spark stage that decodes Kafka's bytes. A format is made once on the driver, where
its options are checked, and shipped to the tasks by pickle.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from stream_app.cdc.change_batch import NO_TRAITS, DecodedBatch, TableTraits
from stream_app.cdc.debezium.debezium_json import DebeziumJson
from stream_app.cdc.isolated_decode import IsolatedDecode
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import RowType

KNOWN_FORMATS: tuple[str, ...] = ("debezium-json",)


class MessageFormat(Protocol):
    """Turns a batch of messages into row changes. Can be pickled.

    A format names the records that it cannot read. What it raises besides, `IsolatedDecode` turns
    into bad records, so no message can stop the job by mistake.
    """

    @property
    def reads_keys(self) -> bool:
        """Whether `decode` looks at the messages' keys; else they may be left out."""
        ...

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode every message, each for itself: what becomes of one never depends on another.

        Args:
            messages: columns of `change_batch.MESSAGE_SCHEMA`, in the order of the source.

        Raises:
            SourceError: a message that stops the job, e.g. a TRUNCATE. Messages that merely
                cannot be decoded come back in `DecodedBatch.bad`.
        """
        ...


def message_format(
    name: str,
    *,
    columns: RowType,
    arrow_schema: pa.Schema,
    primary_keys: tuple[str, ...],
    options: Mapping[str, str],
    keep_update_before: bool,
    traits: TableTraits = NO_TRAITS,
) -> MessageFormat:
    """The format called `name`.

    Args:
        columns: the table's columns.
        arrow_schema: their Arrow types, in the same order.
        primary_keys: columns that must never be null.
        options: the format's own options, e.g. ``decimal.handling.mode``.
        keep_update_before: whether an update also gives -U (changelog-producer = input); it
            always does when the update changes the key.
        traits: what else decides what becomes of a message.

    Raises:
        UsageError: unknown format or option, or a value that the option does not have.
    """
    if name not in KNOWN_FORMATS:
        near = difflib.get_close_matches(name, KNOWN_FORMATS, n=1, cutoff=0.3)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"unknown message format {name!r}",
            where="source.format",
            fix=f"{meant}known: {', '.join(KNOWN_FORMATS)}",
        )
    return IsolatedDecode(
        DebeziumJson(
            columns=columns,
            arrow_schema=arrow_schema,
            primary_keys=primary_keys,
            options=options,
            keep_update_before=keep_update_before,
            traits=traits,
        )
    )
