"""Every reason for which a record is bad has a kind, so that it can be counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_app.cdc.bad_reasons import OTHER, REASON_KINDS, reason_counts, reason_kind

SHOWN = re.compile(r"^\d+ bad: (.*)$", re.MULTILINE)
TEXTS = Path(__file__).parents[2] / "datadriven" / "cdc"


def test_all_reasons_that_the_tests_of_messages_show() -> None:
    reasons = {
        reason
        for file in TEXTS.glob("*.txt")
        for reason in SHOWN.findall(file.read_text(encoding="utf-8"))
    }
    assert len(reasons) > 40
    assert [reason for reason in sorted(reasons) if reason_kind(reason) == OTHER] == []


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("is not JSON: Expecting value at character 0", "not-json"),
        ("column 'x' is not in the table (unknown-columns = quarantine)", "unknown-column"),
        ("column 'x' is missing (missing-columns = quarantine)", "missing-column"),
        ("primary key column 'id' is missing in the before-image", "null-value"),
        ("column 'n' stays INT: … (narrowed-columns = quarantine)", "narrowed-column"),
        ("column 'id' (BIGINT): \"is null\" is not a value of that type", "value"),
        ("has op 'u' and no 'after'", "not-a-change"),
        ("has a partition without a time as the options …", "partition"),
        ("the sky is falling", OTHER),
    ],
)
def test_each_reason_has_a_kind(reason: str, kind: str) -> None:
    assert reason_kind(reason) == kind
    assert kind in REASON_KINDS


def test_reasons_are_counted_by_their_kind() -> None:
    assert reason_counts(["is empty", "is empty", "x"]) == {"not-json": 2, "other": 1}
