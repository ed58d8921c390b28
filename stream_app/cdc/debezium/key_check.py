"""Checks by the Kafka keys of messages whether the changed rows are certain.

Called by `debezium_json` once a batch, with the questions of its records. `key_proof` has the
questions and their proofs. This module reads the keys, and reports uncertain rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.change_batch import place
from stream_app.cdc.debezium.key_proof import (
    KeyRules,
    Question,
    Questions,
    answers,
    remedies,
    uncertainty,
)
from stream_app.cdc.debezium.message_keys import NO_KEY, Fields, MessageKeys
from stream_app.errors import WrongSourceError


@dataclass(slots=True)
class KeyCheck:
    """Judges the messages of one table.

    Attributes:
        quarantines: whether a record that is not certain becomes a bad one; else it stops the job.
    """

    rules: KeyRules
    quarantines: bool
    _keys: MessageKeys = field(default_factory=MessageKeys)

    @property
    def reads_keys(self) -> bool:
        """Whether keys are read: not when an option names the source's key."""
        return bool(self.rules.primary_key) and self.rules.source_key is None

    def uncertain(
        self, messages: pa.RecordBatch, index: npt.NDArray[np.int32], questions: Questions
    ) -> dict[int, str]:
        """Positions of messages whose keys leave the question open, and the reasons.

        Args:
            messages: a batch; without a column `key` no message has one.
            index: positions of the messages that ask, and what each of them asks.

        Raises:
            WrongSourceError: there is one, and it is not to be set aside.
        """
        codes, fields = self._fields(messages, index)
        answered = np.array(
            [[answers(self.rules, one, names) for one in Question] for names in fields]
        )
        failed = np.flatnonzero(~answered[codes, questions])
        if not len(failed):
            return {}
        cases = {
            (code, question): (question, names)
            for code, names in enumerate(fields)
            for question in Question
            if not answered[code, question]
        }
        if not self.quarantines:
            first = failed[np.argmin(index[failed])]
            case = cases[codes[first], questions[first]]
            raise _stop(messages, int(index[first]), self.rules, *case)
        reasons = {
            at: f"{uncertainty(self.rules, *case)}; {remedies(self.rules, case[1])}"
            for at, case in cases.items()
        }
        # A loop over bad records.
        return {int(index[at]): reasons[codes[at], questions[at]] for at in failed}

    def _fields(
        self, messages: pa.RecordBatch, index: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], list[Fields]]:
        if self.reads_keys and "key" in messages.schema.names:
            return self._keys.fields_of(messages.column("key").take(pa.array(index)))
        return np.zeros(len(index), np.int32), [NO_KEY]


def _stop(
    messages: pa.RecordBatch, at: int, rules: KeyRules, question: Question, fields: Fields
) -> WrongSourceError:
    return WrongSourceError(
        f"the record {uncertainty(rules, question, fields)}",
        where=place(messages, at),
        fix=f"{remedies(rules, fields)}; source.debezium.unproven-keys = 'quarantine' sends such "
        f"records to quarantine and continues",
    )
