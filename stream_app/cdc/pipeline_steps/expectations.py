"""Judges the rows that messages bring by the conditions of ``[expectations]``.

The newest state of a row is judged: +I and +U. Where a condition is not true, the expectation's
action decides::

    drop         the change is left out, and the table keeps the row that it has
    quarantine   the record goes to the quarantine, and the table keeps the row that it has
    hold, fail   the driver raises an error before the epoch is committed

A delete is never judged. An earlier step has left out the messages that the table does not take.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools
from stream_app.cdc.change_batch import ROW_KIND, DecodedBatch, Violation
from stream_app.cdc.column_drift import Sighting
from stream_app.cdc.pipeline_steps.change_filter import condition_mask
from stream_app.model.row_kind import RowKind


class ExpectationAction(enum.Enum):
    """The treatment of a row for which a condition is not true."""

    DROP = "drop"
    QUARANTINE = "quarantine"
    HOLD = "hold"
    """The table is held; a job of one table ends."""
    FAIL = "fail"
    """The job ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A condition that rows must meet: ``[expectations.NAME]``.

    Attributes:
        condition: the condition, in the language of filters.
        tables: a regular expression of whole table names, or None for each table that has the
            columns.
    """

    name: str
    condition: str
    action: ExpectationAction = ExpectationAction.QUARANTINE
    tables: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationStep:
    """The step that judges rows by the table's expectations. Implements `pipeline.Step`.

    Attributes:
        conditions: each expectation of the table, with its condition over the rows' columns.
    """

    conditions: Sequence[tuple[Expectation, pc.Expression]]

    def __call__(self, decoded_batch: DecodedBatch, messages: pa.RecordBatch) -> DecodedBatch:
        """See `Step`."""
        for expectation, condition in self.conditions:
            rows = decoded_batch.changes.rows
            kinds = rows.column(ROW_KIND).to_numpy()
            is_newest = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
            is_broken = is_newest & ~condition_mask(rows, condition)
            if is_broken.any():
                decoded_batch = _apply_action(decoded_batch, messages, expectation, is_broken)
        return decoded_batch


def _apply_action(
    decoded_batch: DecodedBatch,
    messages: pa.RecordBatch,
    expectation: Expectation,
    is_broken: Bools,
) -> DecodedBatch:
    """Return the batch after the expectation's action on its broken rows, bool [n]."""
    message_indices = decoded_batch.changes.message_indices
    broken_messages = np.unique(message_indices[is_broken])
    violation = Violation(expectation.name, expectation.action.value)
    sighting = Sighting(len(broken_messages), int(broken_messages[0]))
    decoded_batch = replace(
        decoded_batch, violations={**decoded_batch.violations, violation: sighting}
    )
    match expectation.action:
        case ExpectationAction.QUARANTINE:
            reason = f"breaks the expectation {expectation.name!r}: {expectation.condition}"
            return decoded_batch.with_bad_records(
                messages, dict.fromkeys(broken_messages.tolist(), reason)
            )
        case ExpectationAction.DROP:
            changes = decoded_batch.changes.where(~_broken_change_mask(decoded_batch, is_broken))
            emptied_count = len(np.unique(message_indices)) - len(
                np.unique(changes.message_indices)
            )
            skipped_count = decoded_batch.skipped_count + emptied_count
            return replace(decoded_batch, changes=changes, skipped_count=skipped_count)
        case ExpectationAction.HOLD | ExpectationAction.FAIL:
            return decoded_batch


def _broken_change_mask(decoded_batch: DecodedBatch, is_broken: Bools) -> Bools:
    """Return the mask of the broken rows, and of the -U row directly before each of them."""
    kinds = decoded_batch.changes.rows.column(ROW_KIND).to_numpy()
    rows_and_before = is_broken.copy()
    rows_and_before[:-1] |= is_broken[1:] & (kinds[:-1] == RowKind.UPDATE_BEFORE)
    return rows_and_before
