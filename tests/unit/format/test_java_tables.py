"""Every file of tables that Paimon's Java wrote is read, and made again where it can be."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.arrow_schema import key_value_file_schema
from stream_app.format.avro.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    describe_manifest,
    encode_manifest,
    encode_manifest_list,
)
from stream_app.format.binary_row import deserialize_row, serialize_arrow_row
from stream_app.format.bucket_hash import bucket_of
from stream_app.format.column_stats import FooterStats, key_stats, value_stats
from stream_app.format.data_files.file_batches import conformed_batch
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.format.partition_path import partition_path
from stream_app.format.schema_json import decode_schema, encode_schema
from stream_app.format.snapshot_json import decode_snapshot, encode_snapshot
from stream_app.model.files.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)
from stream_app.model.snapshot import Snapshot
from tests.support.files.plain_object import plain_object
from tests.support.tables.read_batches import read_batches

TABLES = Path(__file__).resolve().parents[2] / "fixtures" / "java_tables" / "java.db"


@dataclass(frozen=True)
class JavaFile:
    """A data or changelog file, by one of the entries that name it."""

    table: Path
    schema: TableSchema
    entry: ManifestEntry

    @property
    def content(self) -> bytes:
        directory = partition_path(
            deserialize_row(self.entry.partition, self.schema.partition_type.types),
            self.schema.partition_type,
            default_name="__DEFAULT_PARTITION__",
            uses_legacy_names=True,
        )
        bucket = self.table / directory / f"bucket-{self.entry.bucket}"
        return (bucket / self.entry.file.file_name).read_bytes()


def schema_of(table: Path) -> TableSchema:
    return decode_schema((table / "schema" / "schema-0").read_bytes())


def snapshots_of(table: Path) -> list[Snapshot]:
    paths = sorted((table / "snapshot").glob("snapshot-*"))
    return [decode_snapshot(path.read_bytes()) for path in paths]


def lists_of(snapshot: Snapshot) -> list[tuple[str, int | None]]:
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    ]
    if snapshot.changelog_manifest_list is not None:
        lists.append((snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size))
    return lists


def manifests_of(table: Path) -> dict[str, ManifestFileMeta]:
    return {
        meta.file_name: meta
        for snapshot in snapshots_of(table)
        for name, _ in lists_of(snapshot)
        for meta in decode_manifest_list((table / "manifest" / name).read_bytes())
    }


def java_files() -> list[JavaFile]:
    files = {
        entry.file.file_name: JavaFile(table, schema_of(table), entry)
        for table in sorted(TABLES.iterdir())
        for name in manifests_of(table)
        for entry in decode_manifest((table / "manifest" / name).read_bytes())
    }
    return [file for file in files.values() if _exists(file)]


def _exists(file: JavaFile) -> bool:
    try:
        return bool(file.content)
    except FileNotFoundError:
        return False


ALL_TABLES = [pytest.param(table, id=table.name) for table in sorted(TABLES.iterdir())]
ALL_FILES = [
    pytest.param(file, id=f"{file.table.name}-{file.entry.file.file_name[:13]}")
    for file in java_files()
]


@pytest.mark.parametrize("table", ALL_TABLES)
def test_metadata_survives(table: Path) -> None:
    written = (table / "schema" / "schema-0").read_bytes()
    assert plain_object(encode_schema(decode_schema(written))) == json.loads(written)
    for path in (table / "snapshot").glob("snapshot-*"):
        snapshot = path.read_bytes()
        assert plain_object(encode_snapshot(decode_snapshot(snapshot))) == json.loads(snapshot)


@pytest.mark.parametrize("table", ALL_TABLES)
def test_manifests_survive_and_are_described_alike(table: Path) -> None:
    types = schema_of(table).partition_type.types
    for snapshot in snapshots_of(table):
        for name, size in lists_of(snapshot):
            data = (table / "manifest" / name).read_bytes()
            metas = decode_manifest_list(data)
            assert len(data) == size
            assert decode_manifest_list(encode_manifest_list(metas, codec="zstd")) == metas
    for name, meta in manifests_of(table).items():
        data = (table / "manifest" / name).read_bytes()
        entries = decode_manifest(data)
        assert decode_manifest(encode_manifest(entries, codec="zstd")) == entries
        described_meta = describe_manifest(
            entries, file_name=name, file_size=len(data), partition_types=types
        )
        assert described_meta == meta


@pytest.mark.parametrize("file", ALL_FILES)
def test_data_files_have_the_columns_we_expect(file: JavaFile) -> None:
    parquet = pq.ParquetFile(io.BytesIO(file.content))
    expected = key_value_file_schema(file.schema, is_thin=False)
    sink = io.BytesIO()
    parquet_writer(sink, expected, file.schema.core_options).close()
    ours = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert parquet.schema_arrow.names == expected.names
    for java, our_column in zip(parquet.schema, ours.schema, strict=True):
        assert java.physical_type == our_column.physical_type, java.name
        assert java.max_definition_level == our_column.max_definition_level, java.name
        if not str(java.logical_type).startswith("Time("):  # Java calls them UTC
            assert str(java.logical_type) == str(our_column.logical_type), java.name
    ids = [field.metadata[b"PARQUET:field_id"] for field in parquet.schema_arrow]
    assert ids == [field.metadata[b"PARQUET:field_id"] for field in expected]


def table_of(file: JavaFile) -> pa.Table:
    schema = key_value_file_schema(file.schema, is_thin=False)
    batches = read_batches(io.BytesIO(file.content), schema.names, 1_000)
    return pa.Table.from_batches([conformed_batch(batch, schema) for batch in batches], schema)


@pytest.mark.parametrize("file", ALL_FILES[:1])
def test_the_checksums_of_java_s_pages_are_checked(file: JavaFile) -> None:
    """A bit at the end of each column's last page."""
    group = pq.ParquetFile(io.BytesIO(file.content)).metadata.row_group(0)
    for column in map(group.column, range(group.num_columns)):
        first = column.dictionary_page_offset or column.data_page_offset
        changed_bytes = bytearray(file.content)
        changed_bytes[first + column.total_compressed_size - 1] ^= 4
        with pytest.raises(CorruptFileError, match="CRC checksum verification failed"):
            list(read_batches(io.BytesIO(changed_bytes), [column.path_in_schema], 1_000))


@pytest.mark.parametrize("file", ALL_FILES)
def test_data_files_are_described_as_by_java(file: JavaFile) -> None:
    """Keys, counts and statistics, from Java's footer and from that of our copy of the file."""
    table = table_of(file)
    meta = file.entry.file
    key_type = file.schema.key_type
    keys = [table[KEY_PREFIX + name].combine_chunks() for name in key_type.names]
    assert serialize_arrow_row(keys, key_type.types, 0) == meta.min_key
    assert serialize_arrow_row(keys, key_type.types, len(table) - 1) == meta.max_key
    assert len(table) == meta.row_count
    numbers = table[SEQUENCE_NUMBER].to_pylist()
    assert (min(numbers), max(numbers)) == (meta.min_sequence_number, meta.max_sequence_number)
    deletes = sum(kind in (1, 3) for kind in table[VALUE_KIND].to_pylist())
    assert deletes == meta.delete_row_count

    columns = list(zip(file.schema.fields.names, file.schema.fields.types, strict=True))
    key_columns = [
        (KEY_PREFIX + name, data_type)
        for name, data_type in zip(key_type.names, key_type.types, strict=True)
    ]
    footer = pq.read_metadata(io.BytesIO(file.content))
    assert key_stats(FooterStats(footer), key_columns) == meta.key_stats
    # Java takes NaN for the largest value; stream_app writes no bounds of columns with NaN.
    if not any("nan" in map(str, column.to_pylist()) for column in table.columns):
        assert value_stats(FooterStats(footer), columns) == (
            meta.value_stats,
            meta.value_stats_cols,
        )

    sink = io.BytesIO()
    with parquet_writer(sink, table.schema, file.schema.core_options) as writer:
        writer.write_table(table)
    ours = pq.read_metadata(io.BytesIO(sink.getvalue()))
    assert key_stats(FooterStats(ours), key_columns) == meta.key_stats


@pytest.mark.parametrize("file", ALL_FILES)
def test_rows_lie_in_the_bucket_we_compute(file: JavaFile) -> None:
    table = table_of(file)
    types = file.schema.fields.project(file.schema.bucket_keys).types
    keys = [table[name].combine_chunks() for name in file.schema.bucket_keys]
    buckets = bucket_of(keys, types, file.schema.core_options.bucket)
    assert set(buckets.tolist()) == {file.entry.bucket}
