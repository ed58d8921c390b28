"""Records in a snapshot that a table was equal to its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_app.format.snapshot_properties.proof_json import encode_proof
from stream_app.model.checksum.source_proof import SourceProof
from stream_app.model.snapshot import PROOF_PROPERTY, Snapshot
from stream_app.table.commit.batch_commit import ANALYSIS, batch_commit
from stream_app.table.file_store_table import FileStoreTable


def record_proof(
    table: FileStoreTable, source_text: str, checksum: str, left_out_columns: Sequence[str] = ()
) -> Snapshot:
    """Publish an ANALYZE snapshot with a proof of this moment; later snapshots copy the proof.

    Args:
        table: a table of `require_writable`.
        source_text: the source and its position.
        checksum: the checksum of both sides, as text.
        left_out_columns: the columns that were not compared, each with the reason.

    Raises:
        CommitError: other writers won every race; nothing has changed.
    """
    now_ms = table.clock.now_ms()
    proof = SourceProof(
        source=source_text,
        checksum=checksum,
        time_ms=now_ms,
        left_out_columns=tuple(left_out_columns),
    )
    properties = {PROOF_PROPERTY: encode_proof(proof)}
    return batch_commit(table).commit_analysis(replace(ANALYSIS, properties=properties))
