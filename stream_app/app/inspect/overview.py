"""Shows the main facts about a table on one page of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from stream_app.app.inspect.compaction_history import policy_rules
from stream_app.app.inspect.snapshot_files import live_files
from stream_app.app.inspect.table_facts import sorted_run_count_max
from stream_app.app.inspect.table_listings import columns_text
from stream_app.app.text.listing import size_text, time_text
from stream_app.format.snapshot_properties.proof_json import proof_of
from stream_app.model.bucket_id import NOT_FIXED
from stream_app.model.checksum.sum_conditions import NOT_ASKED, why_unsummed
from stream_app.model.files.joined_files import row_total
from stream_app.model.files.manifest_entry import ManifestEntry, files_of_buckets
from stream_app.model.options.bucket_options import (
    BUCKET,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
)
from stream_app.model.options.iceberg_options import DISABLED, METADATA_ICEBERG_STORAGE
from stream_app.model.snapshot import PACE_PROPERTY, SOURCE_END_PROPERTY, Snapshot
from stream_app.planning.buckets.bucket_advice import FAIR_SIZE, BucketSize, bucket_advice
from stream_app.planning.buckets.open_buckets import DynamicBucketRules
from stream_app.planning.compact.waiting_rows import waiting_text
from stream_app.planning.iceberg.visible_files import iceberg_levels, unseen_rows
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.base_sum_record import base_sum_record
from stream_app.table.versions.waiting_row_count import count_waiting_rows

_READ_SNAPSHOTS_MAX = 20
_REMEDIES = {
    BUCKET.key: "stream-app rescale TABLE --buckets auto",
    DYNAMIC_BUCKET_TARGET_ROW_NUM.key: "for further keys",
    DYNAMIC_BUCKET_INITIAL_BUCKETS.key: "in a new table",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The main facts about a table.

    Attributes:
        rows_in_files: the number of physical rows, several for one key in unmerged runs.
        runs_max: the number of sorted runs of the bucket that has most of them.
        compaction_policy: the rules that a job chose, and why; None if the table's options apply.
        pace: the length of epochs that a job chose, and why; None if it chose none.
        waiting_rows: the number of rows that readers get only after a compaction.
        iceberg: what Iceberg's readers lack, or None if they lack nothing or are not supported.
        checksum: the checksum of all rows, or why it is unknown; None if the table has none.
        proof: when a check found the table equal to its source, or None without a record.
        bucket_advice: problems with the sizes of buckets, and the remedy, or None.
    """

    table: str
    schema: int
    columns: str
    primary_keys: str
    partition_keys: str
    buckets: int
    changelog_producer: str
    snapshots: str | None
    latest: str | None
    rows_in_files: int
    files: int
    bytes: int
    partitions: int
    runs_max: int
    compaction_trigger: int
    compaction_policy: str | None
    pace: str | None
    waiting_rows: int
    iceberg: str | None
    checksum: str | None
    proof: str | None
    bucket_advice: str | None


def overview(table: FileStoreTable, latest_snapshot: Snapshot | None) -> Overview:
    """Read the facts from the schema, the snapshots and the live files of one snapshot."""
    schema = table.schema
    live_entries = live_files(table, latest_snapshot)
    files = [entry.file for entry in live_entries]
    earliest_id = table.snapshots.earliest_id()
    proof = proof_of(latest_snapshot)
    return Overview(
        table=table.version_root,
        schema=schema.schema_id,
        columns=columns_text(schema),
        primary_keys=", ".join(schema.primary_keys),
        partition_keys=", ".join(schema.partition_keys),
        buckets=table.options.bucket,
        changelog_producer=schema.core_options.changelog_producer,
        snapshots=None
        if earliest_id is None
        else f"{earliest_id} to {table.snapshots.latest_id()}",
        latest=None if latest_snapshot is None else _snapshot_text(latest_snapshot),
        rows_in_files=row_total(files, joins_files=table.schema.joins_files),
        files=len(files),
        bytes=sum(file.file_size for file in files),
        partitions=len({entry.partition for entry in live_entries}),
        runs_max=sorted_run_count_max(live_entries),
        compaction_trigger=table.options.compaction_trigger,
        compaction_policy=policy_rules(table, latest_snapshot),
        pace=_pace(table, latest_snapshot),
        waiting_rows=count_waiting_rows(table, latest_snapshot, live_entries),
        checksum=_checksum(table, latest_snapshot),
        proof=None if proof is None else proof.text(table.clock.now_ms()),
        iceberg=_unseen_by_iceberg(table, live_entries),
        bucket_advice=_bucket_advice(table, live_entries),
    )


def overview_lines(overview: Overview) -> list[str]:
    """Return the page's lines."""
    facts = {
        "table": overview.table,
        "columns": f"{overview.columns}  (schema {overview.schema})",
        "primary key": overview.primary_keys or "none",
        "partitioned by": overview.partition_keys or "nothing",
        "buckets": _buckets(overview),
        "changelog": overview.changelog_producer,
        "snapshots": overview.snapshots or "none yet",
        "shown": overview.latest or "nothing yet",
        "files": f"{overview.files}, {size_text(overview.bytes)}, {overview.rows_in_files:,} rows"
        + (f", {overview.partitions} partitions" if overview.partition_keys else ""),
    }
    if overview.primary_keys:
        facts["sorted runs"] = (
            f"at most {overview.runs_max} in a bucket; "
            f"compaction begins at {overview.compaction_trigger}"
        )
    optional_facts = {
        "chosen rules": overview.compaction_policy,
        "epochs": overview.pace,
        "waiting": waiting_text(overview.waiting_rows) if overview.waiting_rows else None,
        "iceberg": overview.iceberg,
        "checksum": overview.checksum,
        "proven": overview.proof,
        "advice": overview.bucket_advice,
    }
    facts |= {name: value for name, value in optional_facts.items() if value}
    return [f"{name:<14} {value}" for name, value in facts.items()]


def _pace(table: FileStoreTable, latest_snapshot: Snapshot | None) -> str | None:
    """Return the pace that the newest epoch among the latest snapshots records, or None."""
    for snapshot in (
        islice(table.snapshots.backwards(), _READ_SNAPSHOTS_MAX) if latest_snapshot else ()
    ):
        properties = snapshot.properties or {}
        if SOURCE_END_PROPERTY in properties:
            return properties.get(PACE_PROPERTY)
    return None


def _unseen_by_iceberg(table: FileStoreTable, live_entries: Sequence[ManifestEntry]) -> str | None:
    """Return a text about the rows that Iceberg's readers lack, or None if they lack none."""
    options, merges_by_key = table.options, table.kind_traits.merges_by_key
    if options[METADATA_ICEBERG_STORAGE] == DISABLED:
        return None
    levels = iceberg_levels(options, merges_by_key=merges_by_key)
    unseen = unseen_rows(live_entries, levels)
    if not unseen.row_count:
        return None
    buckets_text = f"{unseen.bucket_count:,} bucket{'' if unseen.bucket_count == 1 else 's'}"
    newest_time_text = time_text(unseen.seen_time_ms, zone="")
    visible_text = (
        f"files of {newest_time_text} or later" if newest_time_text else "no file yet in some"
    )
    rows_text = f"{unseen.row_count:,} row{'' if unseen.row_count == 1 else 's'}"
    return (
        f"readers lack {rows_text} in {buckets_text} until a compaction to level "
        f"{levels.level_min}; they see {visible_text}"
    )


def _checksum(table: FileStoreTable, latest_snapshot: Snapshot | None) -> str | None:
    reason = why_unsummed(table.schema)
    if reason == NOT_ASKED or latest_snapshot is None:
        return None
    if reason:
        return f"none: {reason}"
    record = base_sum_record(table, latest_snapshot)
    if not record.is_whole:
        return (
            f"unknown since snapshot {record.origin_id}: "
            "stream-app analyze TABLE --checksum reads it"
        )
    return f"{record.total.digits}, of {record.total.row_count:,} rows"


def _bucket_advice(table: FileStoreTable, live_entries: Sequence[ManifestEntry]) -> str | None:
    """Return the advice about the number of buckets as text, or None without advice."""
    if not table.kind_traits.has_buckets:
        return None
    rules = DynamicBucketRules.of_options(table.options)
    advice = bucket_advice(
        [
            BucketSize(
                partition=partition,
                row_count=sum(file.row_count for file in files),
                byte_count=sum(file.file_size for file in files),
            )
            for (partition, _), files in files_of_buckets(live_entries).items()
        ],
        bucket_count=table.options.bucket,
        width=rules.width,
        target_row_count=rules.target_row_count,
    )
    if advice is None:
        return None
    size = "large" if advice.is_large else "small"
    return (
        f"a bucket has {size_text(advice.mean_size)} on average, which is {size}; "
        f"{advice.option} = {advice.value} would give it about {size_text(FAIR_SIZE)} "
        f"({_REMEDIES[advice.option]})"
    )


def _buckets(overview: Overview) -> str:
    if overview.buckets == NOT_FIXED:
        if not overview.primary_keys:
            return "none: rows are in files as they came"
        return f"as many as the keys need{', in each partition' if overview.partition_keys else ''}"
    return f"{overview.buckets}{' in each partition' if overview.partition_keys else ''}"


def _snapshot_text(snapshot: Snapshot) -> str:
    return (
        f"snapshot {snapshot.snapshot_id}, {snapshot.commit_kind.value} "
        f"by {snapshot.commit_user} at {time_text(snapshot.time_ms)}"
    )
