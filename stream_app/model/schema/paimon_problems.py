"""Reports options with which Paimon cannot open a table; `merge_problems` checks merges.

Paimon checks the schema whenever it opens a table. So one such option locks Paimon's readers and
writers out of the table. The same holds for some nested columns, and for some keys with
cross-partition upsert.

Source: Paimon `schema/SchemaValidation.java`, `CoreOptions.java#startupMode`,
`format/parquet/ParquetSchemaConverter.java`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stream_app.model.options.bucket_options import BUCKET_KEY, PARTITION_LOOKUP
from stream_app.model.options.compaction_options import (
    FULL_COMPACTION_DELTA_COMMITS,
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
)
from stream_app.model.options.core_options import CoreOptions, option_named
from stream_app.model.options.expire_options import (
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_NUM_RETAINED_MIN,
    PARTITION_EXPIRATION_TIME,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_NUM_RETAINED_MIN,
)
from stream_app.model.options.file_options import (
    FILE_COMPRESSION,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
)
from stream_app.model.options.merge_options import (
    IGNORE_DELETE,
    PRIMARY_KEY_NULLABLE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from stream_app.model.options.option import is_on
from stream_app.model.options.scan_options import (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
    STREAMING_READ_OVERWRITE,
)
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.merge.merge_rules import sequence_groups
from stream_app.model.traits.kind_traits import kind_traits
from stream_app.model.traits.merge_engine import MERGE_ENGINES, OlderRowRule, traits_of

_FIELDS = "fields."
_TYPE_BY_OPTION = {
    "blob-descriptor-field": "BLOB",
    "blob-external-storage-field": "BLOB",
    "blob-view-field": "BLOB",
}
_SNAPSHOT, _TAG, _WATERMARK = SCAN_SNAPSHOT_ID.key, SCAN_TAG_NAME.key, SCAN_WATERMARK.key
_MILLIS, _TIME = SCAN_TIMESTAMP_MILLIS.key, SCAN_TIMESTAMP.key
_FILES = "scan.file-creation-time-millis"
_BETWEEN = ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag")
_DEFAULT_BY = {
    **dict.fromkeys((_MILLIS, _TIME), "from-timestamp"),
    **dict.fromkeys((_SNAPSHOT, _TAG, _WATERMARK, SCAN_VERSION.key), "from-snapshot"),
    _FILES: "from-file-creation-time",
    "scan.creation-time-millis": "from-creation-timestamp",
    **dict.fromkeys(_BETWEEN[:2], "incremental"),
}
"""The mode by an option if ``scan.mode`` is not set; the first option that is set decides."""
_INT64_DIGITS = 6
"""Fractional digits of a timestamp that Parquet stores as INT64; finer ones are INT96."""
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_KEY_ROOTS = FLOAT_ROOTS | BINARY_ROOTS
"""Types that no key of a MAP may have: Java would take no two of its values for equal."""


def paimon_problems(
    columns: RowType,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    options: Mapping[str, str],
) -> list[str]:
    """Return the reasons why Paimon would refuse a table with these options; empty without any."""
    return [
        *_column_problems(columns, options),
        *_sequence_problems(columns, options),
        *_expiry_problems(columns, partition_keys, options),
        *_retention_problems(options),
        *_scan_problems(options),
        *_key_problems(primary_keys, options),
    ]


def _column_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Report options that name missing columns, or columns of the wrong type."""
    for key in options:
        if key.startswith(_FIELDS):
            yield from (
                f"option {key!r} names {name!r}, which is not a column"
                for name in key.split(".")[1].split(",")
                if name not in columns.names and name != "default-aggregate-function"
            )
    name = CoreOptions(options)[ROWKIND_FIELD]
    if name and name not in columns.names:
        yield f"rowkind.field names {name!r}, which is not a column"
    for key, type_name in _TYPE_BY_OPTION.items():
        if options.get(key, "").strip():
            yield f"{key} is for columns of type {type_name}, which stream_app does not store"


def _sequence_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    core = CoreOptions(options)
    names = core.columns(SEQUENCE_FIELD)
    for name in dict.fromkeys(names):
        if name not in columns.names:
            yield f"sequence.field names {name!r}, which is not a column"
        if names.count(name) > 1:
            yield f"sequence.field names {name!r} twice"
        if f"{_FIELDS}{name}.aggregate-function" in options:
            yield f"column {name!r} is in sequence.field: leave out its aggregate function"
    if core[SEQUENCE_SNAPSHOT_ORDERING] and names:
        yield "sequence.snapshot-ordering does not go with sequence.field: choose one"


def _expiry_problems(
    columns: RowType, partition_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Yield problems with the expiry of partitions and of rows."""
    core = CoreOptions(options)
    if PARTITION_EXPIRATION_TIME.key in options and not partition_keys:
        yield "partition.expiration-time is set, and the table has no partitions: leave it out"
    name = core[RECORD_LEVEL_TIME_FIELD]
    if not name:
        if core[RECORD_LEVEL_EXPIRE_TIME] is not None:
            yield "record-level.expire-time is set, record-level.time-field is not set"
    elif name not in columns.names:
        yield f"record-level.time-field names {name!r}, which is not a column"
    elif (data_type := columns.field(name).data_type).root not in (
        TypeRoot.INT,
        TypeRoot.BIGINT,
        *TIMESTAMP_ROOTS,
    ):
        yield f"record-level.time-field {name!r} is {data_type}: use INT, BIGINT or TIMESTAMP"


def _retention_problems(options: Mapping[str, str]) -> Iterator[str]:
    core = CoreOptions(options)
    snapshot_bounds = core[SNAPSHOT_NUM_RETAINED_MIN], core[SNAPSHOT_NUM_RETAINED_MAX]
    configured_bounds = core[CHANGELOG_NUM_RETAINED_MIN], core[CHANGELOG_NUM_RETAINED_MAX]
    changelog_bounds = [
        snapshot_bound if bound is None else bound
        for bound, snapshot_bound in zip(configured_bounds, snapshot_bounds, strict=True)
    ]
    for prefix, bounds in {"snapshot": snapshot_bounds, "changelog": changelog_bounds}.items():
        minimum, maximum = bounds
        is_same_problem = prefix == "changelog" and configured_bounds == (None, None)
        if minimum > maximum and not is_same_problem:
            yield (
                f"{prefix}.num-retained.min, {minimum}, is above {prefix}.num-retained.max, "
                f"{maximum}: lower it, or raise that"
            )


def _key_problems(primary_keys: Collection[str], options: Mapping[str, str]) -> Iterator[str]:
    """Yield options that a table with or without a primary key cannot have."""
    core = CoreOptions(options)
    if core[STREAMING_READ_OVERWRITE]:
        if not primary_keys:
            yield "streaming-read-overwrite needs primary-keys: use streaming-read-append-overwrite"
        if core.producer.by_compaction:
            yield (
                f"streaming-read-overwrite with changelog-producer = {core.changelog_producer} "
                "would give changes twice: leave it out"
            )
    if primary_keys:
        return
    for option in (PRIMARY_KEY_NULLABLE, SEQUENCE_SNAPSHOT_ORDERING):
        if core[option]:
            yield f"{option.key} needs primary-keys: leave it out"
    has_buckets = kind_traits((), (), core.bucket).has_bucket_number
    if not has_buckets and core[FULL_COMPACTION_DELTA_COMMITS] is not None:
        yield "full-compaction.delta-commits needs primary-keys or buckets: leave it out"
    if is_on(options, "table-read.sequence-number.enabled"):
        yield "table-read.sequence-number.enabled needs primary-keys: leave it out"


@dataclass(frozen=True, slots=True)
class _Start:
    """The options that belong to one mode of ``scan.mode``.

    Attributes:
        required_keys: options of which exactly one is required; empty: none is required.
        forbidden_keys: options that are not allowed.
    """

    required_keys: tuple[str, ...]
    forbidden_keys: tuple[str, ...]


_STARTS = {
    "from-timestamp": _Start((_MILLIS, _TIME), (_SNAPSHOT, _FILES, _TAG, *_BETWEEN)),
    "from-snapshot": _Start((_SNAPSHOT, _TAG, _WATERMARK), (_MILLIS, _TIME, _FILES, *_BETWEEN)),
    "incremental": _Start(_BETWEEN, (_SNAPSHOT, _MILLIS, _FILES, _TIME, _TAG)),
    "from-snapshot-full": _Start((_SNAPSHOT,), (_MILLIS, _TIME, _FILES, _TAG, *_BETWEEN)),
    "from-file-creation-time": _Start((_FILES,), (_SNAPSHOT, _MILLIS, _TAG, *_BETWEEN)),
}
_OTHER_START = _Start((), (_MILLIS, _FILES, _TIME, _SNAPSHOT, _TAG, *_BETWEEN))


def _scan_problems(options: Mapping[str, str]) -> Iterator[str]:
    mode = CoreOptions(options)[SCAN_MODE]
    if mode == "default":
        modes = (_DEFAULT_BY[key] for key in _DEFAULT_BY if _sets_option(options, key))
        mode = next(modes, "latest-full")
    start = _STARTS.get(mode, _OTHER_START)
    keys = [key for key in start.required_keys if _sets_option(options, key)]
    if start.required_keys and len(keys) != 1:
        quantifier = "one of " if len(start.required_keys) > 1 else ""
        key_list = ", ".join(start.required_keys)
        yield f"scan.mode {mode} needs {quantifier}{key_list}, and has {len(keys)}"
    yield from (
        f"scan.mode {mode} does not go with {key}: leave one of them out"
        for key in start.forbidden_keys
        if _sets_option(options, key)
    )


def _sets_option(options: Mapping[str, str], key: str) -> bool:
    option = option_named(key)
    return any(name in options for name in ((key, *option.older_keys) if option else (key,)))


def index_problems(
    primary_keys: Collection[str], partition_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Yield the reasons why keys and options do not allow cross-partition upsert."""
    core = CoreOptions(options)
    crosses = bool(primary_keys) and not {*partition_keys} <= {*primary_keys}
    if core[PARTITION_LOOKUP]:
        yield from _lookup_problems(core, primary_keys, partition_keys, crosses_partitions=crosses)
    if not (crosses or core[PARTITION_LOOKUP]):
        return
    moved_rows = "a row that moves to another partition"
    if core[SEQUENCE_FIELD]:
        yield f"sequence.field cannot order the versions of {moved_rows}: leave it out"
    if traits_of(core.merge_engine).older_row_rule is not OlderRowRule.MOVES:
        return
    if core[IGNORE_DELETE]:
        yield f"{IGNORE_DELETE.key} keeps the older version of {moved_rows}: leave it out"
    if core[ROWKIND_FIELD]:
        yield f"rowkind.field overrides the delete of {moved_rows}: leave it out"


def _lookup_problems(
    core: CoreOptions,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    *,
    crosses_partitions: bool,
) -> Iterator[str]:
    """Yield problems with the lookup of keys in all partitions."""
    key = PARTITION_LOOKUP.key
    if not primary_keys or not partition_keys:
        yield f"{key} finds keys in partitions: it needs primary-keys and partition-keys"
    elif crosses_partitions:
        yield f"{key} is for primary keys with all partition columns; this one needs no option"
    elif core.bucket < 1:
        yield (
            f"{key} needs a fixed number of buckets: give option 'bucket' ≥ 1, or leave the "
            "partition columns out of the primary key"
        )
    if traits_of(core.merge_engine).older_row_rule is not OlderRowRule.MOVES:
        moving = [
            name
            for name, traits in MERGE_ENGINES.items()
            if traits.older_row_rule is OlderRowRule.MOVES
        ]
        yield f"{key} moves rows to other partitions: merge-engine must be {' or '.join(moving)}"


def nested_problems(
    columns: RowType,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    options: Mapping[str, str],
) -> list[str]:
    """Return the reasons why a table's nested columns cannot be stored; empty if they can."""
    nested_types = {
        column.name: column.data_type for column in columns if column.data_type.is_nested
    }
    if not nested_types:
        return []
    core = CoreOptions(options)
    group_columns = {name for sequence, _ in sequence_groups(options) for name in sequence}
    uses: dict[str, Collection[str]] = {
        "primary-keys": primary_keys,
        "partition-keys": partition_keys,
        BUCKET_KEY.key: core.columns(BUCKET_KEY),
        SEQUENCE_FIELD.key: core.columns(SEQUENCE_FIELD),
        "the sequence of a sequence-group": group_columns,
    }
    problems = [
        f"{setting} names {name!r}, which is {nested_types[name]}: use a column of a scalar type"
        for setting, names in uses.items()
        for name in dict.fromkeys(names)
        if name in nested_types
    ]
    for name, data_type in nested_types.items():
        problems += [
            f"column {name!r} is {data_type}: {problem}" for problem in _inner_problems(data_type)
        ]
    nested_name = next(iter(nested_types))
    problems += [
        f"column {column.name!r} is {column.data_type} beside the nested column {nested_name!r}: "
        f"give it {_INT64_DIGITS} fractional digits at most"
        for column in columns
        if not column.data_type.is_nested and _exceeds_int64(column.data_type)
    ]
    problems += [
        f"column {column.name!r} is nested and has the default {column.default_value!r}: leave it "
        "out"
        for column in columns
        if column.name in nested_types and column.default_value is not None
    ]
    return problems


def avro_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Report the columns that Avro data files cannot store."""
    if all(
        "avro" not in options.get(option.key, "") for option in (FILE_FORMAT, FILE_FORMAT_PER_LEVEL)
    ):
        return  # another check reports unknown formats
    core = CoreOptions(options)
    options_by_level = [core, *(core.at_level(level) for level in core[FILE_FORMAT_PER_LEVEL])]
    avro_levels = [level for level in options_by_level if level[FILE_FORMAT] == "avro"]
    if not avro_levels:
        return
    if any(level[FILE_COMPRESSION] == "lz4" for level in avro_levels):
        yield f"Avro has no codec lz4: set {FILE_COMPRESSION.key} to zstd"
    for column in columns:
        if any(map(_exceeds_int64, column.data_type.scalars())):
            yield (
                f"column {column.name!r} is {column.data_type}: a time in files of Avro can have "
                f"{_INT64_DIGITS} fractional digits at most"
            )
        fields = [column.name, *_field_names(column.data_type)]
        for name in (name for name in fields if not _AVRO_NAME.fullmatch(name)):
            yield f"{name!r} is not a name of a field in Avro: use letters, digits and _"


def _field_names(data_type: DataType) -> Iterator[str]:
    for field in data_type.fields:
        yield field.name
    for inner in data_type.inner:
        yield from _field_names(inner)


def _inner_problems(data_type: DataType) -> Iterator[str]:
    if data_type.root is TypeRoot.ROW and not data_type.fields:
        yield "a ROW needs a field"
    key = data_type.key
    if key is not None and (key.is_nested or key.root in _NO_KEY_ROOTS):
        yield f"the key of a MAP cannot be {key}"
    for inner in data_type.inner:
        if _exceeds_int64(inner):
            yield f"inside it a time can have {_INT64_DIGITS} fractional digits at most"
        if inner.is_nested:
            yield from _inner_problems(inner)


def _exceeds_int64(data_type: DataType) -> bool:
    return data_type.root in TIMESTAMP_ROOTS and data_type.precision > _INT64_DIGITS
