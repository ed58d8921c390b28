"""Decides whether the row of an update or a delete is certain.

Under REPLICA IDENTITY DEFAULT, PostgreSQL sends no before-image with an update, and Debezium fills
that of a delete with invented values. With USING INDEX it does so for updates too. None of these
may be taken for a key of the table. A row is certain in two ways.

1. Its before-image is proven whole: an option says so, or the connector has no other.
2. The message's Kafka key holds the table's primary key. Then Debezium sends a change of the key as
   a delete and a create, and the key's columns of a before-image are true. A message without a key
   is of a table without one. PostgreSQL allows updates and deletes there only with whole
   before-images.

`parsed_images` and `single_decoding` call `questions_of`. `debezium_json` calls `KeyCheck` once a
batch, which reads the keys.

Source: Debezium's PostgreSQL connector, "Replica identity" and "Change event keys", and its
`RelationalChangeRecordEmitter.java` for changes of the key; tests/fixtures/cdc has such messages.
The connectors of MySQL and MariaDB refuse a server whose `binlog_row_image` is not FULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.cdc.change_batch import message_place
from stream_app.cdc.debezium.message_keys import NO_KEY, KeyFields, MessageKeys
from stream_app.cdc.json_records.batch_outcome import KeyQuestions
from stream_app.cdc.rows.row_assembly import DELETE, UPDATE, Ops
from stream_app.errors import WrongSourceError
from stream_app.model.options.merge_options import SEQUENCE_FIELD

POSTGRESQL_CONNECTOR = "postgresql"
WHOLE_IMAGES = ("mysql", "mariadb")
"""Connectors whose before-images are always whole."""


class ReplicaIdentity(Enum):
    """The content of before-images: values of the option ``replica-identity``."""

    AUTO = "auto"
    FULL = "full"
    DEFAULT = "default"


class KeyQuestion(IntEnum):
    """The facts that a record's Kafka key must prove; a larger member needs more."""

    NONE = 0
    UPSERT = 1
    """A flattened record that does not say whether it is an update."""
    UPDATE = 2
    """An update without a before-image."""
    UPDATE_FROM = 3
    """An update whose before-image is not proven."""
    DELETE = 4
    """A delete whose before-image is not proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """The rules of a table for all of its records.

    Attributes:
        primary_key: the table's; empty if no row has to be certain.
        sequence_fields: columns whose values decide whether a delete takes effect, so that its key
            must have them as well.
        source_key: columns of the source's key, if an option names them; None for those of the
            Kafka keys.
    """

    identity: ReplicaIdentity = ReplicaIdentity.AUTO
    primary_key: frozenset[str] = frozenset()
    sequence_fields: frozenset[str] = frozenset()
    source_key: frozenset[str] | None = None

    def required_columns(self, question: KeyQuestion) -> frozenset[str]:
        """Return the columns that a key must have to answer."""
        is_delete = question is KeyQuestion.DELETE
        return self.primary_key | self.sequence_fields if is_delete else self.primary_key

    @property
    def reads_connector(self) -> bool:
        """Whether the connector's name affects the proof."""
        return bool(self.primary_key) and self.identity is ReplicaIdentity.AUTO


def questions_of(
    rules: KeyRules, ops: Ops, has_before: Bools, has_whole_images: Bools
) -> KeyQuestions:
    """Return what each record's key must prove.

    Args:
        has_whole_images: whether the connector is one of `WHOLE_IMAGES`.
    """
    questions: KeyQuestions = np.zeros(len(ops), np.uint8)
    if not rules.primary_key:
        return questions
    is_update, is_delete = ops == UPDATE, ops == DELETE
    match rules.identity:
        case ReplicaIdentity.FULL:
            is_proven = has_before
        case ReplicaIdentity.AUTO:
            is_proven = has_before & has_whole_images
        case ReplicaIdentity.DEFAULT:
            is_proven = np.zeros(len(ops), np.bool_)
    questions[is_update & ~has_before] = KeyQuestion.UPDATE
    questions[is_update & has_before & ~is_proven] = KeyQuestion.UPDATE_FROM
    questions[is_delete & ~is_proven] = KeyQuestion.DELETE
    return questions


def answers(rules: KeyRules, question: KeyQuestion, fields: KeyFields) -> bool:
    """Return whether a key with these fields proves the row."""
    if question is KeyQuestion.NONE:
        return True
    if rules.source_key is not None:
        return rules.source_key >= rules.required_columns(question)
    if fields is None:
        return question is KeyQuestion.UPSERT
    if fields == NO_KEY:
        # The source has no key, so its before-images are whole.
        shows_row = (
            question is not KeyQuestion.UPDATE and rules.identity is not ReplicaIdentity.DEFAULT
        )
        return question is KeyQuestion.UPSERT or shows_row
    return fields >= rules.required_columns(question)


def uncertain_row_reason(rules: KeyRules, question: KeyQuestion, fields: KeyFields) -> str:
    """Return the reason of a bad record whose row is uncertain."""
    operation = {
        KeyQuestion.UPSERT: "may be an update (it has no __op)",
        KeyQuestion.DELETE: "is a delete",
    }.get(question, "is an update")
    image_problem = "it has no before-image"
    if question in (KeyQuestion.UPDATE_FROM, KeyQuestion.DELETE):
        image_problem = "its before-image may hold invented values"
    key_fields = rules.source_key if rules.source_key is not None else fields
    key_name = "the message's key" if rules.source_key is None else "source-key"
    if key_fields is None:
        key_problem = f"{key_name} is not a JSON object that names its columns"
    elif not key_fields:
        key_problem = "the message has no key"
    else:
        missing_columns = sorted(rules.required_columns(question) - key_fields)
        role = "the primary key" if rules.primary_key & set(missing_columns) else SEQUENCE_FIELD.key
        key_problem = (
            f"{key_name} ({', '.join(sorted(key_fields))}) lacks {', '.join(missing_columns)} "
            f"of {role}"
        )
    return (
        f"{operation}, and which row it changes is not certain: {key_problem}, and {image_problem}"
    )


def proof_remedies(rules: KeyRules, fields: KeyFields) -> str:
    """Return the options and settings that make such records certain."""
    key_fields = rules.source_key if rules.source_key is not None else fields
    images_fix = (
        "set REPLICA IDENTITY FULL on the source table and "
        "source.debezium.replica-identity = 'full', with whole messages (not flattened)"
    )
    if not key_fields:
        alternative = "name the source's key in source.debezium.source-key"
    elif key_fields >= rules.primary_key:
        alternative = "use a table without sequence.field"
    else:
        alternative = (
            f"make the source's key ({', '.join(sorted(key_fields))}) the table's primary key"
        )
        alternative += (
            "; or, if it lacks only partition columns, set the option partition-lookup = true"
        )
    return f"{images_fix}; or {alternative}"


@dataclass(slots=True)
class KeyCheck:
    """A check whether the rows of one table's changes are certain by the messages' keys.

    Attributes:
        quarantines_uncertain: whether a change whose row is not certain becomes a bad record;
            otherwise it stops the job.
    """

    rules: KeyRules
    quarantines_uncertain: bool
    _keys: MessageKeys = field(init=False, default_factory=MessageKeys)

    @property
    def reads_keys(self) -> bool:
        """Whether the check reads keys, because no option names the source's key."""
        return bool(self.rules.primary_key) and self.rules.source_key is None

    def uncertain_reasons(
        self,
        messages: pa.RecordBatch,
        message_indices: npt.NDArray[np.int32],
        questions: KeyQuestions,
    ) -> dict[int, str]:
        """Return index → reason, for the messages whose keys do not identify their row.

        Args:
            messages: a batch; without a column `key` no message has a key.
            message_indices: the indices of the messages to check.

        Raises:
            WrongSourceError: a record is uncertain, and must not be quarantined.
        """
        codes, all_fields = self._fields(messages, message_indices)
        is_answered = np.array(
            [
                [answers(self.rules, question, fields) for question in KeyQuestion]
                for fields in all_fields
            ]
        )
        failed_indices = np.flatnonzero(~is_answered[codes, questions])
        if not len(failed_indices):
            return {}
        cases = {
            (code, question): (question, fields)
            for code, fields in enumerate(all_fields)
            for question in KeyQuestion
            if not is_answered[code, question]
        }
        if not self.quarantines_uncertain:
            first_failed = failed_indices[np.argmin(message_indices[failed_indices])]
            case = cases[codes[first_failed], questions[first_failed]]
            raise _uncertain_error(messages, int(message_indices[first_failed]), self.rules, *case)
        reasons = {
            failure: (
                f"{uncertain_row_reason(self.rules, *case)}; {proof_remedies(self.rules, case[1])}"
            )
            for failure, case in cases.items()
        }
        # A loop over bad records.
        return {
            int(message_indices[index]): reasons[codes[index], questions[index]]
            for index in failed_indices
        }

    def _fields(
        self, messages: pa.RecordBatch, message_indices: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], list[KeyFields]]:
        if self.reads_keys and "key" in messages.schema.names:
            return self._keys.fields_of(messages.column("key").take(pa.array(message_indices)))
        return np.zeros(len(message_indices), np.int32), [NO_KEY]


def _uncertain_error(
    messages: pa.RecordBatch,
    position: int,
    rules: KeyRules,
    question: KeyQuestion,
    fields: KeyFields,
) -> WrongSourceError:
    return WrongSourceError(
        f"the record {uncertain_row_reason(rules, question, fields)}",
        where=message_place(messages, position),
        fix=f"{proof_remedies(rules, fields)}; source.debezium.unproven-keys = 'quarantine' "
        "sends such records to quarantine and continues",
    )
