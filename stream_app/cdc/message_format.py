"""The ports of a CDC format: its declaration, its setup and its decoding.

Each package of a format, such as `debezium`, implements them. `stream_app.message_format_registry`
lists the formats. It is above `cdc`, because it also joins the schema registries of `kafka`. The
driver creates a format once and checks its options. Tasks get the format by pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.change_batch import NO_TRAITS, DecodedBatch, TableTraits
from stream_app.cdc.source_tables import Origins
from stream_app.cdc.transactions import MessageTransactions
from stream_app.model.options.option import Option
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceTable


class MessageFormat(Protocol):
    """A decoder of batches of messages to row changes. Can be pickled.

    A format reports the records that it cannot read. `Pipeline` turns unexpected exceptions into
    bad records, so no message can stop the job by mistake.
    """

    def decode(self, messages: pa.RecordBatch) -> DecodedBatch:
        """Decode each message independently: no result depends on another message.

        Args:
            messages: columns of `change_batch.MESSAGE_SCHEMA`, in the order of the source.

        Raises:
            SourceError: a message that stops the job, e.g. a TRUNCATE by default. Messages that
                merely cannot be decoded come back in `DecodedBatch.bad_records`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSetup:
    """The setup of a format.

    Attributes:
        columns: the table's columns.
        arrow_schema: their Arrow types, in the same order.
        primary_keys: columns that must never be null, unless `traits` says otherwise.
        options: the format's own options, e.g. ``decimal.handling.mode``.
        keeps_update_before: whether an update also produces -U (changelog-producer = input). An
            update of the key always does.
        traits: further settings that decide how messages are decoded.
        earlier_names: name that the source used earlier → the table's column.
        mapping_options: the mapping of types; None if the table does not follow its source.
    """

    columns: RowType
    arrow_schema: pa.Schema
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    keeps_update_before: bool
    traits: TableTraits = NO_TRAITS
    earlier_names: Mapping[str, str] = field(default_factory=dict)
    mapping_options: MappingOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A finding in the first messages; `fix` is the user's remedy.

    Attributes:
        stops_job: whether the job stops at one of these messages; otherwise later messages may be
            wrong.
    """

    problem: str
    where: str
    fix: str
    stops_job: bool = False


class SourceSurvey(Protocol):
    """A survey of a few messages of each topic, before the job reads them."""

    def tables(self) -> Mapping[tuple[str, str], int]:
        """Return topic and name of a source table → its messages with rows."""
        ...

    def notices(self) -> Iterator[Notice]:
        """Yield notices for the user, topic by topic."""
        ...


class SeenTableVersion(NamedTuple):
    """A version of a source table, and the messages that describe it: int64 [m]."""

    message_indices: npt.NDArray[np.int64]
    table: SourceTable


@dataclass(frozen=True, slots=True)
class DdlText:
    """A statement of the source, and the database in which it ran."""

    database: str
    text: str


DdlOf = Callable[[dict[str, Any]], DdlText | None]
"""Returns the statement in a message's document, or None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceExtractor:
    """The functions that extract facts about the source from messages; can be pickled.

    No function here raises because of a message. A function raises `SourceError` when a server that
    it asks, such as a schema registry, does not answer.

    Attributes:
        find_origins: finds the source table that each message names, without decoding it.
        describe: finds the columns and the key of one source table from a few of its messages,
            which have the columns of `change_batch.MESSAGE_SCHEMA`. Returns None if no message
            shows a column. It skips unreadable messages.
        find_versions: describes each distinct version of the table, with the messages that show it.
            None if the format's messages have no types.
        find_change_times: finds the time of each change in the source, a timestamp in ms of UTC
            [n], null if unknown. None if the format's messages have no times.
        ddl_of: finds the source's statement in a message; None if the format has no such messages.
        find_transactions: finds the transaction of each message; None if the format's messages do
            not name it.
    """

    find_origins: Callable[[pa.RecordBatch], Origins]
    describe: Callable[[pa.RecordBatch, MappingOptions], SourceTable | None]
    find_versions: Callable[[pa.RecordBatch, MappingOptions], Sequence[SeenTableVersion]] | None = (
        None
    )
    find_change_times: Callable[[pa.RecordBatch], pa.Array] | None = None
    ddl_of: DdlOf | None = None
    find_transactions: Callable[[pa.RecordBatch], MessageTransactions] | None = None


def promises_nothing(_: Mapping[str, str]) -> bool:
    """Return False: by default, no options promise that before-images are whole."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatDeclaration:
    """A format's entry in the registry.

    Attributes:
        name: the value of ``source.format``.
        section: the name of the configuration's section ``source.SECTION`` that has the options.
        introduction: the introduction of the options, for their page of the documentation.
        options: the format's options, in the order of that page.
        check: checks options beside a table's columns; raises `UsageError` with all problems.
        make: makes the format; raises `UsageError` as `check` does.
        survey: reads a few messages, by topic, of `change_batch.MESSAGE_SCHEMA`.
        make_source_extractor: makes the extractor of the source's facts; raises as `make` does.
        has_times: whether the extractor has `find_change_times`.
        has_transactions: whether the extractor has `find_transactions`.
        has_whole_before: whether these options promise that every before-image is whole.
        has_changes: whether messages can be updates and deletes.
        telltale_fields: fields that occur together only in messages of this format, or of formats
            with more such fields.
    """

    name: str
    section: str
    introduction: str
    options: tuple[Option[Any], ...]
    check: Callable[[Mapping[str, str], RowType], object]
    make: Callable[[FormatSetup], MessageFormat]
    survey: Callable[[FormatSetup, Mapping[str, pa.RecordBatch]], SourceSurvey]
    make_source_extractor: Callable[[Mapping[str, str]], SourceExtractor]
    has_times: bool = True
    has_transactions: bool = False
    has_whole_before: Callable[[Mapping[str, str]], bool] = promises_nothing
    has_changes: bool = True
    telltale_fields: tuple[frozenset[str], ...] = ()

    def full_key(self, option: str) -> str:
        """Return the key of an option in the configuration."""
        return f"source.{self.section}.{option}"
