"""The table options of stream_app agree with those of Paimon's own library."""

from __future__ import annotations

import pytest

from stream_app.errors import UsageError
from stream_app.model.options.core_options import OPTIONS, option_named
from stream_app.model.options.option import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LONG,
    REAL,
    SIZE,
    TEXT,
    OptionKind,
)
from stream_app.model.options.paimon_option_keys import (
    CORE_KEYS,
    PAIMON_KEYS,
    PAIMON_PREFIXES,
    VALUE_CHECKS,
)
from stream_app.model.schema.table_only_options import is_tables_own
from tests.support.judges.paimon_java import PaimonJava

pytestmark = pytest.mark.java

OWN_KEYS = {key for key, option in OPTIONS.items() if option.is_own}
# Paimon has a number for "no limit", and shows an enum by the name of its constant. Paimon 2 counts
# the first buckets by their size, Paimon 1.4 has one.
OTHER_DEFAULTS = {
    "lookup-compact": ("radical", "RADICAL"),
    "lookup.cache-max-disk-size": (None, str(2**63 - 1)),
    "postpone.default-bucket-num": (None, "1"),
    "write-buffer-spill.max-disk-size": (None, str(2**63 - 1)),
}
TEXTS = {
    "write-buffer-size": (
        "1|17 b|17 bytes|3kb| 3 KB |3 kibibytes|3 kib|4 m|4 Mebibytes|5 g|5 gib|1 t|1.5 gb|-1||mb|"
        "9223372036854775807|9223372036854775808|9000000 tb|٣ kb"
    ),
    "commit.timeout": (
        "7|7ms|7 milli|7 millis|7 millisecond|8 s|8 sec|8 secs|8 seconds|9 m|9 min|9 Minutes|2 h|"
        "2 hours|3 d|3 days|3 weeks|1.5 s|-5 s|"
    ),
    "snapshot.num-retained.min": "5|+5| 5|5 |5.0|1_000|2147483647|2147483648|x|",
    "write-only": "true|TRUE|False| true|yes|1|",
    "merge-engine": "deduplicate|DEDUPLICATE|Deduplicate |",
    "changelog-producer": "input|INPUT|NoNe|in put",
    "sequence.field.sort-order": "descending|Ascending|desc",
    "global-index.row-count-per-shard": "9223372036854775807|-3|9223372036854775808|1 |x",
    "compaction.delete-ratio-threshold": "0.5|2|-.25|1e-1|0,5|x|",
    "clustering.incremental.mode": "global-sort|LOCAL-SORT|local_sort|v|",
    "format-table.implementation": "paimon|Engine|flink|",
    "incremental-between-scan-mode": "auto|DELTA|changelog|diff|both|",
    "materialized-table.interval-freshness.time-unit": "second|MINUTE|hour|day|week|",
    "materialized-table.logical-refresh-mode": "continuous|full|Automatic|none|",
    "materialized-table.refresh-mode": "continuous|FULL|automatic|no|",
    "materialized-table.refresh-status": "initializing|activated|SUSPENDED|gone|",
    "metastore.tag-to-partition.preview": "none|process-time|Watermark|batch|process_time|",
    "partition.sink-strategy": "none|HASH|random|",
    "sort-compaction.range-strategy": "size|Quantity|count|",
    "sort-engine": "min-heap|LOSER-TREE|loser_tree|quick|",
}
NEWER_KEYS = """
bitmap-index.compression bitmap-index.compression-level bitmap-index.dictionary-block-size
bitmap-index.fallback-scan-max-size blob-compaction.enabled blob-descriptor.source-table
blob-view-field blob-view.resolve.enabled blob-write-null-on-fetch-failure
blob-write-null-on-missing-file blob.copy-buffer-size chain-table.split.key-range-enabled
chain-table.streaming.merge-snapshot commit.native.enabled compaction.skip-expired-partitions
compaction.small-file-ratio data-evolution.compaction.rewrite-row-ids
data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
data-evolution.reassign.skip-contiguous-row-count data-evolution.row-id-conflict-rewrite.max-size
data-evolution.row-sidecar.enabled data-evolution.row-sidecar.max-selected-rows
data-evolution.row-sidecar.max-selection-ratio data-evolution.write-cols-optimization.enabled
deletion-vectors.merge-on-read format-table.scan.list-parallelism full-text-index.search-mode
global-index.build.parallelism global-index.filter.refine-from-data global-index.search-mode
local-cache.block-size local-cache.dir local-cache.enabled local-cache.max-size
local-cache.whitelist local-kv-db.block-size lookup.blob-as-descriptor manifest-sort.enabled
manifest-sort.max-rewrite-size manifest-sort.partition-field manifest.merge-optimize.enabled
manifest.sidecar.enabled mosaic.num-buckets mosaic.stats-columns pk-bitmap.index.columns
pk-btree.index.columns pk-full-text.index.columns pk-multivalue.index.columns
pk-vector.index.columns postpone.batch-write-fixed-bucket.rescale-load-factor
postpone.merge-on-read postpone.target-row-num-per-bucket postpone.target-size-per-bucket
primary-key.nullable read.native.enabled read.parallelism row-tracking.partition-group-on-commit
scalar-index.search-mode scan.bucket scan.fallback-branch.read-fail-fast scan.native-plan.enabled
scan.plan-auto-tag-for-read.time-retained sequence.snapshot-ordering sorted-index.records-per-file
target-file-row-num variant.shredding.adaptive.maxInferBufferRow
variant.shredding.adaptive.retentionRatio variant.shredding.inferenceMode vector-index.search-mode
vector-search.distribute.enabled vector-search.lateral-join.batch-size video-frame-field
write.native.enabled write.sequence-number-init-mode
"""
"""Keys that later versions of Paimon have, and the judge's has not."""
KINDS = {
    "Integer": INTEGER,
    "Long": LONG,
    "Double": REAL,
    "Float": REAL,
    "MemorySize": SIZE,
    "Duration": DURATION,
    "Boolean": BOOLEAN,
}


def test_defaults_and_older_keys_are_paimons(paimon_java: PaimonJava) -> None:
    java_options, _ = paimon_java.options()
    for key in OPTIONS.keys() - OWN_KEYS - set(NEWER_KEYS.split()):  # PyPaimon judges their types
        option = OPTIONS[key]
        default = (option.default or None) if option.kind.name == "text" else option.default
        expected = OTHER_DEFAULTS.get(key, (default, _plain(default)))
        assert (default, java_options[key]["default"]) == expected, key
        assert list(option.older_keys) == java_options[key]["older_keys"], key
        if java_options[key]["is_fixed"]:
            assert is_tables_own(key)


def test_all_keys_of_paimon_are_known_and_no_other(paimon_java: PaimonJava) -> None:
    java_options, _ = paimon_java.options()
    newer = set(NEWER_KEYS.split())
    known_types = {key: kind for key, kind in CORE_KEYS.items() if key not in newer}
    unjudged_keys = OWN_KEYS | newer
    known_types |= {
        key: _general(option.kind) for key, option in OPTIONS.items() if key not in unjudged_keys
    }
    kinds = {key: KINDS.get(option["type"], TEXT) for key, option in java_options.items()}
    # Options of a column or a class are known by their beginning; some are only known by name.
    unread = PAIMON_KEYS - CORE_KEYS.keys()
    listed_keys = {
        key: kind
        for key, kind in kinds.items()
        if not key.startswith(PAIMON_PREFIXES) and key not in unread
    }
    assert {key: known_types.get(key) for key in listed_keys} == listed_keys
    assert {key: kinds.get(key) for key in known_types} == known_types
    assert not newer & java_options.keys()
    older = {key for option in java_options.values() for key in option["older_keys"]}
    assert all(key in PAIMON_KEYS or option_named(key) for key in older)
    assert not OWN_KEYS & PAIMON_KEYS


def test_we_read_the_texts_that_paimon_reads_and_refuse_the_others(
    paimon_java: PaimonJava,
) -> None:
    texts = [(key, text) for key, joined_texts in TEXTS.items() for text in joined_texts.split("|")]
    _, theirs = paimon_java.options(texts)
    ours = [_read(key, text) for key, text in texts]
    # Java shows a choice as its enum has it.
    ours, theirs = (
        [value and value.lower() if key in VALUE_CHECKS else value for (key, _), value in pairs]
        for pairs in (list(zip(texts, values, strict=True)) for values in (ours, theirs))
    )
    assert dict(zip(texts, ours, strict=True)) == dict(zip(texts, theirs, strict=True))


def _read(key: str, text: str) -> str | None:
    try:
        VALUE_CHECKS.get(key, str)(text)
        option = OPTIONS.get(key)
        return _plain(CORE_KEYS[key].parse(text) if option is None else option.read({key: text}))
    except (UsageError, ValueError):
        return None


def _general(kind: OptionKind[object]) -> OptionKind[object]:
    """The kind that Paimon has, of an option whose values are limited further."""
    name = "text" if kind.name == "map" else kind.name  # a map is a text in the schema
    general = [option_type for option_type in (*KINDS.values(), TEXT) if option_type.name == name]
    return kind if kind in general else general[0]


def _plain(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
