"""Defines one version of a table's schema.

`format.schema_json` reads and writes it.

Source: Paimon `schema/TableSchema.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET_KEY, PARTITION_LOOKUP
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import DATA_EVOLUTION_ENABLED, TARGET_FILE_SIZE
from stream_app.model.options.merge_options import (
    PRIMARY_KEY_NULLABLE,
    SEQUENCE_FIELD,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from stream_app.model.schema.data_type import (
    FLOAT_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.file_format_problems import variant_problems, vector_problems
from stream_app.model.schema.file_index_problems import file_index_problems
from stream_app.model.schema.history_columns import (
    HistoryColumns,
    history_columns,
    history_problems,
    keys_of_versions,
)
from stream_app.model.schema.iceberg_schema import iceberg_problems
from stream_app.model.schema.merge.merge_problems import merge_problems
from stream_app.model.schema.merge.merge_rules import MergeRules, merge_rules
from stream_app.model.schema.merge.refusal_rules import RefusalRule, refusal_rules
from stream_app.model.schema.paimon_problems import (
    avro_problems,
    index_problems,
    nested_problems,
    paimon_problems,
)
from stream_app.model.traits.kind_traits import KindTraits, is_writable, kind_traits

SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
KEY_PREFIX = "_KEY_"
RESERVED_NAMES = frozenset({SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID"})
FIRST_FIELD_ID = 1
"""The first field id of a new table; Paimon begins with 0, which some of Iceberg's readers
refuse."""
_BUCKET_KEY_ALONE = "bucket-key needs a number of buckets: give option 'bucket' ≥ 1"


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """Columns, keys and options of a table.

    Attributes:
        schema_id: the number of the schema file.
        fields: all columns in order.
        highest_field_id: the largest column id ever used, including dropped columns.
        time_ms: the time at which this schema was created.
        unknown_fields: unknown keys of its file, which a copy would lose.
    """

    schema_id: int
    fields: RowType
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_ms: int = 0
    unknown_fields: tuple[str, ...] = ()

    @cached_property
    def core_options(self) -> CoreOptions:
        """The options, parsed."""
        return CoreOptions(self.options)

    @cached_property
    def kind_traits(self) -> KindTraits:
        """The traits of the table's kind."""
        options = self.core_options
        return kind_traits(
            self.primary_keys,
            self.partition_keys,
            options.bucket,
            looks_up_partition=options[PARTITION_LOOKUP],
        )

    @property
    def bucket_numbers(self) -> range:
        """The numbers of the buckets of each partition."""
        return range(self.core_options.bucket if self.kind_traits.has_buckets else 1)

    @cached_property
    def target_file_size(self) -> int:
        """The bytes beyond which a new data file begins (``target-file-size``)."""
        configured_size = self.core_options[TARGET_FILE_SIZE]
        return self.kind_traits.target_file_size if configured_size is None else configured_size

    @property
    def compaction_file_size(self) -> int:
        """The size below which a file is small, so that a compaction rewrites it."""
        return self.target_file_size // 10 * 7

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition columns, which is the key inside a bucket."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def key_type(self) -> RowType:
        """The columns of the trimmed primary key."""
        return self.fields.project(self.trimmed_primary_keys)

    @cached_property
    def partition_type(self) -> RowType:
        """The partition columns."""
        return self.fields.project(self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns of the bucket key, in hash order."""
        return self.core_options.columns(BUCKET_KEY) or self.trimmed_primary_keys

    @cached_property
    def bucket_key_types(self) -> tuple[DataType, ...]:
        """The types of the bucket key, which determine the hash."""
        types = self.fields.project(self.bucket_keys).types
        return tuple(data_type.as_nullable() for data_type in types)

    @cached_property
    def sequence_fields(self) -> tuple[str, ...]:
        """The columns of ``sequence.field``."""
        return self.core_options.columns(SEQUENCE_FIELD)

    @cached_property
    def history(self) -> HistoryColumns | None:
        """The columns of row versions; None if the table keeps no history."""
        return history_columns(self.options)

    @cached_property
    def merge_rules(self) -> MergeRules:
        """The rules by which rows of one key are merged, column by column."""
        return merge_rules(self.options, self.fields.names, self.primary_keys)

    @property
    def joins_files(self) -> bool:
        """Whether the columns of a row may be in several files."""
        return self.core_options[DATA_EVOLUTION_ENABLED]

    @cached_property
    def refusal_rules(self) -> tuple[RefusalRule, ...]:
        """The rules about rows that no merge accepts, so that writers must not commit them."""
        if not self.kind_traits.merges_by_key:
            return ()
        return refusal_rules(self.fields, self.primary_keys, self.options)


def new_table_schema(
    *,
    columns: RowType,
    primary_keys: tuple[str, ...],
    partition_keys: tuple[str, ...],
    options: Mapping[str, str],
    time_ms: int,
    comment: str | None = None,
) -> TableSchema:
    """Return schema 0 of a new table; ``primary-key.nullable`` allows nullable key columns.

    With ``history`` the arguments have the source's key, and the table's key also has the start of
    a version.

    Raises:
        UsageError: the definition is wrong; the error lists all problems.
    """
    primary_keys, options = keys_of_versions(primary_keys, partition_keys, options)
    problems = schema_problems(columns, primary_keys, partition_keys, options)
    if problems:
        raise UsageError(
            "the table definition is wrong: " + "; ".join(problems),
            fix="correct keys and options in the configuration",
        )
    fields = RowType(
        tuple(
            replace(column, data_type=key_column_type(column.data_type, options))
            if column.name in primary_keys
            else column
            for column in columns
        )
    )
    fields = fields.with_new_ids(FIRST_FIELD_ID)
    return TableSchema(
        schema_id=0,
        fields=fields,
        highest_field_id=fields.highest_id,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=dict(options),
        comment=comment,
        time_ms=time_ms,
    )


def key_column_type(data_type: DataType, options: Mapping[str, str]) -> DataType:
    """Return the type that Paimon gives a primary key column (`Schema.java`)."""
    may_be_null = CoreOptions(options)[PRIMARY_KEY_NULLABLE]
    return data_type.as_nullable() if may_be_null else data_type.not_null()


def schema_problems(
    columns: RowType,
    primary_keys: tuple[str, ...],
    partition_keys: tuple[str, ...],
    options: Mapping[str, str],
) -> list[str]:
    """Return all problems of a table's definition; empty if it is correct."""
    names = set(columns.names)
    problems = [
        f"column {name!r} has a name that Paimon reserves"
        for name in columns.names
        if name in RESERVED_NAMES or name.startswith(KEY_PREFIX)
    ]
    for setting, keys in (("primary-keys", primary_keys), ("partition-keys", partition_keys)):
        problems += [
            f"{setting} names {key!r}, which is not a column" for key in keys if key not in names
        ]
        problems += [
            f"{setting} names {key!r} twice" for key in dict.fromkeys(keys) if keys.count(key) > 1
        ]
    if primary_keys:
        problems += _key_problems(columns, primary_keys, partition_keys, options)
    else:
        problems += _append_problems(columns, partition_keys, options)
    problems += file_index_problems(columns, options)
    return problems + existing_problems(columns, primary_keys, partition_keys, options)


def existing_problems(
    columns: RowType,
    primary_keys: Collection[str],
    partition_keys: Collection[str],
    options: Mapping[str, str],
) -> list[str]:
    """Return the reasons why stream_app cannot write an existing table, nor Paimon open it."""
    return [
        *paimon_problems(columns, primary_keys, partition_keys, options),
        *merge_problems(columns, primary_keys, options),
        *nested_problems(columns, primary_keys, partition_keys, options),
        *avro_problems(columns, options),
        *vector_problems(columns, options),
        *variant_problems(columns, options),
        *_blob_problems(columns),
        *index_problems(primary_keys, partition_keys, options),
        *iceberg_problems(columns, primary_keys, options),
        *history_problems(columns.names, primary_keys, partition_keys, options),
    ]


def unread_blobs(schema: TableSchema, column: DataField) -> str:
    """Return where a column's BLOBs are that stream_app does not read; empty if it reads them.

    With a primary key, rows have references to files of BLOBs, which no manifest names. An upkeep
    that does not know the references would delete the files.
    """
    if not any(scalar.root is TypeRoot.BLOB for scalar in column.data_type.scalars()):
        return ""
    if column.data_type.root is not TypeRoot.BLOB:
        return "another type"
    return "a table with a primary key" if schema.primary_keys else ""


def _blob_problems(columns: RowType) -> list[str]:
    """Return problems with BLOB columns, which only tables of Paimon's engines have."""
    return [
        f"column {column.name!r} is {column.data_type}: stream_app only reads BLOBs, so make them "
        "BYTES"
        for column in columns
        if any(scalar.root is TypeRoot.BLOB for scalar in column.data_type.scalars())
    ]


def _key_problems(
    columns: RowType,
    primary_keys: tuple[str, ...],
    partition_keys: tuple[str, ...],
    options: Mapping[str, str],
) -> list[str]:
    """Return problems with the keys of a table with a primary key."""
    problems = []
    core = CoreOptions(options)
    if core[SEQUENCE_SNAPSHOT_ORDERING] and not core[WRITE_ONLY]:
        problems.append(
            "sequence.snapshot-ordering needs write-only = true in the table: let another job "
            "compact it (stream-app compact TABLE --follow)"
        )
    traits = kind_traits(primary_keys, partition_keys, core.bucket)
    trimmed_keys = [key for key in primary_keys if key not in partition_keys]
    missing_keys = [key for key in partition_keys if key not in primary_keys]
    if not trimmed_keys:
        problems.append("primary-keys must have a column that is not a partition key")
    elif missing_keys and not traits.crosses_partitions:
        problems.append(
            f"with a fixed number of buckets partition keys must be part of the primary key, "
            f"{missing_keys} are not: add them, or give bucket = -1"
        )
    problems += [
        f"primary key {key!r} is {columns.field(key).data_type}: floating point cannot be a key"
        for key in primary_keys
        if key in columns.names and columns.field(key).data_type.root in FLOAT_ROOTS
    ]
    if not is_writable(primary_keys, partition_keys, core.bucket):
        problems.append(
            f"option 'bucket' is {options['bucket']}: give a fixed number ≥ 1, such as bucket = 4, "
            "-1 for buckets as keys come, or -2 for those that a compaction gives"
        )
    if not (traits.has_bucket_number or traits.postpones) and core.columns(BUCKET_KEY):
        problems.append(_BUCKET_KEY_ALONE)
    problems += [
        f"bucket-key names {key!r}, which is not in the primary key without the partition keys"
        for key in core.columns(BUCKET_KEY)
        if key not in trimmed_keys
    ]
    return problems


def _append_problems(
    columns: RowType, partition_keys: tuple[str, ...], options: Mapping[str, str]
) -> list[str]:
    """Report problems of a table without a primary key."""
    problems = []
    core = CoreOptions(options)
    bucket_keys = core.columns(BUCKET_KEY)
    traits = kind_traits((), partition_keys, core.bucket)
    if not is_writable((), partition_keys, core.bucket):
        problems.append("option 'bucket' must be -1 or at least 1")
    elif bucket_keys and not traits.has_bucket_number:
        problems.append(_BUCKET_KEY_ALONE)
    elif traits.has_bucket_number and not bucket_keys:
        problems.append(
            "without primary-keys, buckets need option 'bucket-key'; or leave 'bucket' out"
        )
    problems += [
        f"bucket-key names {key!r}, which is not a column"
        for key in bucket_keys
        if key not in columns.names
    ]
    problems += [
        f"bucket-key names {key!r}, which is a partition key"
        for key in bucket_keys
        if key in partition_keys
    ]
    if core.writes_changelog:
        problems.append("changelog-producer needs primary-keys: appended rows are their own log")
    return problems
