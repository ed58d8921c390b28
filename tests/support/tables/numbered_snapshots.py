"""Snapshots of which only the number matters."""

from __future__ import annotations

from stream_app.model.snapshot import CommitKind, Snapshot


def a_snapshot(number: int) -> Snapshot:
    return Snapshot(
        snapshot_id=number, schema_id=0,
        base_manifest_list=f"base-{number}", base_manifest_list_size=None,
        delta_manifest_list=f"delta-{number}", delta_manifest_list_size=None,
        changelog_manifest_list=None, changelog_manifest_list_size=None, index_manifest=None,
        commit_user="user", commit_identifier=number, commit_kind=CommitKind.APPEND,
        time_ms=0, total_record_count=0, delta_record_count=0, changelog_record_count=None,
        watermark=None, statistics=None, properties=None, next_row_id=None,
    )  # fmt: skip
