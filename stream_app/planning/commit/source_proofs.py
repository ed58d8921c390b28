"""The record of a comparison in which a table was equal to its source.

`check --source … --record` writes it into a snapshot, and later snapshots copy it. So it shows how
long ago the table was last proven, wherever the table is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.snapshot import PROOF_PROPERTY, Snapshot

_WHAT = f"snapshot's {PROOF_PROPERTY}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProof:
    """A comparison without a difference.

    Attributes:
        source: the other side, and its position.
        rows: the checksum of both sides, in words.
        time_millis: when the comparison ended.
    """

    source: str
    rows: str
    time_millis: int

    def text(self, now_ms: int) -> str:
        """The proof in words."""
        age = max(0, now_ms - self.time_millis) // 1000
        return f"equal to {self.source}, {age:,} s ago: {self.rows}"


def encode_proof(proof: SourceProof) -> str:
    """The property's text: ``{"source": "…", "rows": "…", "timeMillis": 1767225600000}``."""
    document = {"source": proof.source, "rows": proof.rows, "timeMillis": proof.time_millis}
    return orjson.dumps(document).decode()


def proof_of(snapshot: Snapshot | None) -> SourceProof | None:
    """The proof that a snapshot has; None: it has none that can be read."""
    text = ((snapshot and snapshot.properties) or {}).get(PROOF_PROPERTY)
    if text is None:
        return None
    try:
        document = JsonObject(orjson.loads(text), what=_WHAT)
        return SourceProof(
            source=document.text("source"),
            rows=document.text("rows"),
            time_millis=document.integer("timeMillis"),
        )
    except (ValueError, TypeError, AttributeError, CorruptFileError):
        return None
