"""Snapshot files of Java survive a round trip, and broken ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.snapshot_json import decode_snapshot, decode_tag, encode_snapshot
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from tests.support.files.plain_object import plain_object
from tests.unit.format.vectors import snapshots_of_tables

LEAST = {
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "b",
    "deltaManifestList": "d",
    "commitUser": "u",
    "commitIdentifier": BATCH_COMMIT_IDENTIFIER,
    "commitKind": "APPEND",
    "timeMillis": 5,
}


def bytes_of(**changes: Any) -> bytes:
    return json.dumps(LEAST | changes).encode()


@pytest.mark.parametrize(
    "written",
    [pytest.param(entry["snapshot"], id=label) for label, entry in snapshots_of_tables()],
)
def test_snapshots_of_java_survive(written: dict[str, Any]) -> None:
    snapshot = decode_snapshot(json.dumps(written).encode())
    again = encode_snapshot(snapshot)
    assert plain_object(again) == written
    assert list(plain_object(again)) == list(written)
    assert decode_snapshot(again) == snapshot


def test_the_least_snapshot_that_java_reads() -> None:
    snapshot = decode_snapshot(bytes_of())
    assert snapshot.commit_identifier == 9_223_372_036_854_775_807
    assert snapshot.commit_kind is CommitKind.APPEND
    assert snapshot.total_record_count is None
    assert snapshot.properties is None
    assert plain_object(encode_snapshot(snapshot)) == LEAST | {"version": 3}


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        pytest.param(-(2**63), None, id="none-of-old-writers"),
        pytest.param(2**63 - 1, 2**63 - 1, id="end-of-input"),
        pytest.param(0, 0, id="zero"),
    ],
)
def test_a_watermark_survives_and_its_least_value_means_none(
    watermark: int, expected: int | None
) -> None:
    snapshot = decode_snapshot(bytes_of(watermark=watermark))
    assert snapshot.watermark == expected
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


def test_properties_survive_and_unknown_keys_are_ignored() -> None:
    snapshot = decode_snapshot(
        bytes_of(properties={"offsets": '{"0": 5}'}, uuid="x", logOffsets={}, statistics=None)
    )
    assert snapshot.properties == {"offsets": '{"0": 5}'}
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "cannot read a snapshot file", id="empty"),
        pytest.param(b"{", "cannot read a snapshot file", id="truncated"),
        pytest.param(b"[]", "it is list, not an object", id="list"),
        pytest.param(bytes_of(id=None), "'id' is missing", id="no-id"),
        pytest.param(bytes_of(commitUser=5), "'commitUser' is 5", id="wrong-type"),
        pytest.param(bytes_of(timeMillis=1.5), "'timeMillis' is 1.5", id="fraction"),
        pytest.param(bytes_of(schemaId=True), "'schemaId' is True", id="boolean"),
        pytest.param(bytes_of(commitKind="MERGE"), "'commitKind' is 'MERGE'", id="kind"),
    ],
)
def test_broken_snapshots_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message) as caught:
        decode_snapshot(data)
    assert "to fix" in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"tagTimeRetained": 1e308}, id="endless time to live"),
        pytest.param({"tagTimeRetained": "x"}, id="time to live is a text"),
        pytest.param({"tagCreateTime": [10**18, 1, 1, 1, 1, 1]}, id="year beyond the calendar"),
        pytest.param({"tagCreateTime": [2026]}, id="year alone"),
    ],
)
def test_a_damaged_tag_is_named(values: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError, match="cannot read a tag file") as caught:
        decode_tag("t", bytes_of(**values))
    assert caught.value.fix.startswith("delete the tag, and create it again")
