"""The port by which a job of a whole database creates tables that appear in the messages.

`round_runner` calls it, and `app.table_setup.database_tables` implements it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import MessageSplitter
from stream_app.model.source.origin import Origin


class NewcomerOutcome(NamedTuple):
    """Outcome for tables that appear in the messages.

    Attributes:
        failures: for each table that cannot be created for now, the reason.
        creation_problems: for each source table whose messages cannot create a table, the reason.
    """

    feeds: Sequence[TableFeed]
    failures: Mapping[str, BaseException]
    creation_problems: Mapping[Origin, str]


class NewcomerCreator(Protocol):
    """The creator of tables that appear in the messages."""

    def create(self, messages: pa.Table, *, are_held: bool = False) -> NewcomerOutcome:
        """Create the tables of messages in the warehouse unless they exist; return the outcome.

        The splitter sends messages of a table that cannot be created to `blocks.UNREADABLE_INDEX`.

        Args:
            messages: some of each table, in columns of `MESSAGE_SCHEMA`. When an epoch is decoded
                while the one before is written, the latter may have brought the tables already.
            are_held: whether the tables are held already, so that any reason that prevents a table
                fails it.
        """
        ...

    def quarantine_unassigned_messages(self, epoch: int, messages: pa.Table) -> None:
        """Quarantine an epoch's messages that belong to no table.

        Args:
            messages: the messages, in columns of `BAD_RECORD_SCHEMA`.
        """
        ...

    def splitter(
        self,
        feeds: Sequence[TableFeed],
        held_names: frozenset[str] = frozenset(),
        creation_problems: Mapping[Origin, str] | None = None,
    ) -> MessageSplitter:
        """Return the splitter of a job of these tables.

        Args:
            held_names: the names of held tables, whose messages stay in the topic unless `feeds`
                has them.
            creation_problems: source tables whose messages have no table in this epoch → why.
        """
        ...
