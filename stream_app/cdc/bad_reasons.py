"""Classifies the reasons of bad records into a few kinds, which can be counted by name.

A reason is a sentence for people, with names and values in it. The quarantine stores this text
alone, so the wording determines the kind, also of records that an earlier version stored. The
decoders and the steps of `cdc` choose the wording, and tests compare it with this list.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

OTHER = "other"

_KINDS: tuple[tuple[str, str], ...] = (
    ("not-json", r"is (not JSON|not UTF-8|empty|nested too deeply|a JSON )|has the field .* twice"),
    ("not-avro", r"is not Avro |has a schema that is not Avro's"),
    ("not-protobuf", r"is not Protobuf |has a schema that (is not Protobuf's|imports )"),
    ("no-schema", r"is not of a registry|names schema |has a schema "),
    ("unknown-column", r"column .* is not in the table \("),
    ("missing-column", r"column .* is missing \("),
    ("narrowed-column", r"column .*\(narrowed-columns"),
    ("null-value", r"(primary key|NOT NULL) column .* is (null|missing)"),
    ("unchanged-value", r"column .* is unchanged and its value was not sent"),
    ("expectation", r"breaks the expectation "),
    ("value", r"column '"),
    ("uncertain-row", r".* which row it changes is not certain"),
    ("other-table", r"(is of the source's table|does not name its source table)"),
    ("not-an-insert", r"is an? (update|delete), and the table has no primary key"),
    ("partition", r"has a (value of the partition column|partition without a time)"),
    ("decoder-error", r"(the )?decoder "),
    (
        "not-a-change",
        r"has (neither|no|op|the unknown|a |data |its data )|is an envelope|is a tombstone ",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)

REASON_KINDS: tuple[str, ...] = (*(kind for kind, _ in _KINDS), OTHER)
"""All results of `reason_kind`."""


class UnreadableRecordError(ValueError):
    """The reason why a record cannot be read, for the quarantine."""


def reason_kind(reason: str) -> str:
    """Return the kind of a bad record's reason, or `OTHER` if it matches no kind."""
    for kind, pattern in _PATTERNS:
        if pattern.match(reason):
            return kind
    return OTHER


def reason_counts(reasons: Iterable[str]) -> dict[str, int]:
    """Count the reasons by kind."""
    return dict(sorted(Counter(map(reason_kind, reasons)).items()))
