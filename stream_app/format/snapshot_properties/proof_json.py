"""Encodes the proof that a table was equal to its source as a snapshot property."""

from __future__ import annotations

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.checksum.source_proof import SourceProof
from stream_app.model.snapshot import PROOF_PROPERTY, Snapshot

_PROPERTY = f"snapshot's {PROOF_PROPERTY}"


def encode_proof(proof: SourceProof) -> str:
    """Return the property's text: ``{"source": "…", "rows": "…", "timeMillis": 1767225600000}``.

    If columns were not compared, ``"without": ["…"]`` names them.
    """
    document: dict[str, object] = {
        "source": proof.source, "rows": proof.checksum, "timeMillis": proof.time_ms
    }  # fmt: skip
    if proof.left_out_columns:
        document["without"] = list(proof.left_out_columns)
    return orjson.dumps(document).decode()


def proof_of(snapshot: Snapshot | None) -> SourceProof | None:
    """Return a snapshot's proof; None if it has no readable one."""
    text = ((snapshot and snapshot.properties) or {}).get(PROOF_PROPERTY)
    if text is None:
        return None
    try:
        fields = orjson.loads(text)
        document = JsonObject(fields, file_kind=_PROPERTY)
        return SourceProof(
            source=document.text("source"),
            checksum=document.text("rows"),
            time_ms=document.integer("timeMillis"),
            left_out_columns=tuple(map(str, fields.get("without", ()))),
        )
    except (ValueError, TypeError, AttributeError, CorruptFileError):
        return None
