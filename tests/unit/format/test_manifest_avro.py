"""Manifests and manifest lists have Java's schemas, and Java's own files are read."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.format.avro.avro_container import read_records, write_records
from stream_app.format.avro.manifest_avro import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    decode_manifest,
    decode_manifest_list,
    describe_manifest,
    encode_manifest,
    encode_manifest_list,
)
from stream_app.format.binary_row import serialize_row
from stream_app.model.files.data_file_meta import (
    EMPTY_ROW,
    EMPTY_STATS,
    DataFileMeta,
    FileSource,
    SimpleStats,
)
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.schema.data_type import DataType, parse_data_type
from tests.unit.format.vectors import avro_files, snapshots_of_tables, unhex, vectors

FULL_FILE = DataFileMeta(
    file_name="data-1-0.parquet",
    file_size=2**40,
    row_count=3,
    min_key=EMPTY_ROW,
    max_key=EMPTY_ROW,
    key_stats=SimpleStats(null_counts=(None, 2**40)),
    value_stats=EMPTY_STATS,
    min_sequence_number=0,
    max_sequence_number=2**62,
    schema_id=7,
    level=5,
    extra_files=("data-1-0.parquet.index",),
    creation_time_ms=1_700_000_000_123,
    delete_row_count=1,
    embedded_index=b"\0\1",
    file_source=FileSource.COMPACT,
    value_stats_cols=("a", "b"),
    external_path="file:/elsewhere",
    first_row_id=10,
    write_cols=("a",),
)
BARE_FILE = replace(
    FULL_FILE,
    extra_files=(),
    creation_time_ms=None,
    delete_row_count=None,
    embedded_index=None,
    file_source=None,
    value_stats_cols=None,
    external_path=None,
    first_row_id=None,
    write_cols=None,
)


def an_entry(
    *,
    kind: FileKind = FileKind.ADD,
    partition: bytes = EMPTY_ROW,
    bucket: int = 0,
    file: DataFileMeta = BARE_FILE,
) -> ManifestEntry:
    return ManifestEntry(kind=kind, partition=partition, bucket=bucket, total_buckets=4, file=file)


def written_schema(data: bytes) -> Any:
    schema = fastavro.reader(io.BytesIO(data)).writer_schema
    assert isinstance(schema, dict)
    return {key: value for key, value in schema.items() if not key.startswith("__")}


def test_manifest_schema_is_java_s() -> None:
    first = vectors()["tables"]["pk"]["snapshots"][0]
    expected = fastavro.parse_schema(first["deltaManifestList manifests"][0]["avro_schema"])
    assert isinstance(expected, dict)
    assert first["deltaManifestList manifests"][0]["avro_schema"] == MANIFEST_SCHEMA
    assert written_schema(encode_manifest([], codec="zstd")) == {
        key: value for key, value in expected.items() if not key.startswith("__")
    }


def test_manifest_list_schema_is_java_s() -> None:
    expected = vectors()["tables"]["pk"]["snapshots"][0]["deltaManifestList"]["avro_schema"]
    assert expected == MANIFEST_LIST_SCHEMA


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=label) for label, file in avro_files(" manifests")]
)
def test_manifests_of_java_survive(file: dict[str, Any]) -> None:
    records = unhex(file["records"])
    schema = fastavro.parse_schema(MANIFEST_SCHEMA)
    entries = decode_manifest(write_records(schema, records, "zstd"))
    again = encode_manifest(entries, codec="zstd")
    assert decode_manifest(again) == entries
    assert plain_times(read_records(again)) == records


def plain_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for record in records:
        creation_time = record["_FILE"]["_CREATION_TIME"]
        record["_FILE"]["_CREATION_TIME"] = round(creation_time.timestamp() * 1000)
    return records


@pytest.mark.parametrize("file", [pytest.param(file, id=label) for label, file in avro_files("")])
def test_manifest_lists_of_java_survive(file: dict[str, Any]) -> None:
    records = unhex(file["records"])
    schema = fastavro.parse_schema(MANIFEST_LIST_SCHEMA)
    metas = decode_manifest_list(write_records(schema, records, "zstd"))
    assert read_records(encode_manifest_list(metas, codec="zstd")) == records


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=label) for label, entry in snapshots_of_tables()]
)
def test_manifests_are_described_as_by_java(entry: dict[str, Any]) -> None:
    schema = fastavro.parse_schema(MANIFEST_SCHEMA)
    list_schema = fastavro.parse_schema(MANIFEST_LIST_SCHEMA)
    is_partitioned = any(
        len(record["_PARTITION_STATS"]["_NULL_COUNTS"])
        for record in entry["deltaManifestList"]["records"]
    )
    types = [parse_data_type("STRING")] if is_partitioned else []
    records = unhex(entry["deltaManifestList"]["records"])
    metas = decode_manifest_list(write_records(list_schema, records, "none"))
    for meta, file in zip(metas, entry["deltaManifestList manifests"], strict=True):
        entries = decode_manifest(write_records(schema, unhex(file["records"]), "none"))
        assert (
            describe_manifest(
                entries,
                file_name=meta.file_name,
                file_size=meta.file_size,
                partition_types=tuple(types),
            )
            == meta
        )


@pytest.mark.parametrize("codec", ["zstd", "deflate", "null", "none"])
def test_every_field_survives_every_codec(codec: str) -> None:
    entries = [an_entry(file=FULL_FILE), an_entry(kind=FileKind.DELETE)]
    assert decode_manifest(encode_manifest(entries, codec=codec)) == entries


def test_unknown_bounds_of_a_list_survive() -> None:
    meta = ManifestFileMeta(
        file_name="manifest-1-0",
        file_size=5,
        num_added_files=1,
        num_deleted_files=0,
        partition_stats=EMPTY_STATS,
        schema_id=0,
    )
    assert decode_manifest_list(encode_manifest_list([meta], codec="none")) == [meta]


def test_an_empty_list_is_a_file() -> None:
    data = encode_manifest_list([], codec="zstd")
    assert decode_manifest_list(data) == []
    assert data.startswith(b"Obj\x01")


def test_fields_of_other_versions_are_tolerated() -> None:
    """Old writers leave optional fields out, new ones add fields."""
    optional = {
        "_EXTRA_FILES", "_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX",
        "_FILE_SOURCE", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS",
    }  # fmt: skip
    record = read_records(encode_manifest([an_entry()], codec="none"))[0]
    record["_NEW"] = 5
    file_fields = [
        field
        for field in MANIFEST_SCHEMA["fields"][5]["type"]["fields"]  # type: ignore[index]
        if field["name"] not in optional
    ]
    file_type = {"type": "record", "name": "record__FILE", "fields": file_fields}
    fields = [*MANIFEST_SCHEMA["fields"][:5]]  # type: ignore[index]
    fields += [{"name": "_FILE", "type": file_type}, {"name": "_NEW", "type": "int"}]
    schema = fastavro.parse_schema({"type": "record", "name": "record", "fields": fields})
    [entry] = decode_manifest(write_records(schema, [record], "none"))
    assert entry.file.unknown_fields == ("_NEW",)
    assert replace(entry, file=replace(entry.file, unknown_fields=())) == an_entry()
    with pytest.raises(UnsupportedTableError, match="unknown fields: _NEW; a commit would lose"):
        encode_manifest([entry], codec="none")


def test_another_version_is_refused() -> None:
    record = read_records(encode_manifest([an_entry()], codec="none"))[0] | {"_VERSION": 3}
    data = write_records(fastavro.parse_schema(MANIFEST_SCHEMA), [record], "none")
    with pytest.raises(CorruptFileError, match="_VERSION is 3 instead of 2") as caught:
        decode_manifest(data)
    assert "to fix" in str(caught.value)


def test_a_manifest_list_is_not_a_manifest() -> None:
    meta = describe_manifest([an_entry()], file_name="m", file_size=1, partition_types=())
    with pytest.raises(CorruptFileError, match="_KIND"):
        decode_manifest(encode_manifest_list([meta], codec="none"))
    with pytest.raises(CorruptFileError, match="KeyError: '_"):
        decode_manifest_list(encode_manifest([an_entry()], codec="none"))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: b"PAR1" + data, id="other-format"),
        pytest.param(lambda data: data[:-1], id="truncated"),
        pytest.param(lambda data: data[:-40], id="much-truncated"),
        pytest.param(lambda data: data[:-30] + bytes(30), id="overwritten"),
    ],
)
def test_damaged_files_are_refused(damage: Any) -> None:
    data = damage(encode_manifest([an_entry()] * 3, codec="zstd"))
    with pytest.raises(CorruptFileError, match=f"not a readable (Avro )?file of {len(data)} bytes"):
        decode_manifest(data)


def partition(data_type: DataType, value: object) -> bytes:
    return serialize_row([value], [data_type])


@pytest.mark.parametrize(
    ("type_text", "values", "expected"),
    [
        pytest.param("STRING", ["b", None, "a", "b"], ("a", "b", 1), id="strings-and-a-null"),
        pytest.param("STRING", [None, None], (None, None, 2), id="nulls-only"),
        pytest.param("INT", [3, -1], (-1, 3, 0), id="numbers"),
        pytest.param("STRING", ["x" * 40], ("x" * 40, "x" * 40, 0), id="never-truncated"),
        pytest.param("BYTES", [b"a"], (None, None, 0), id="no-bounds-of-binaries"),
        pytest.param("DOUBLE", [1.0, float("nan")], (None, None, 0), id="no-bounds-with-nan"),
    ],
)
def test_partition_statistics(
    type_text: str, values: list[object], expected: tuple[object, object, int]
) -> None:
    data_type = parse_data_type(type_text)
    entries = [an_entry(partition=partition(data_type, value)) for value in values]
    meta = describe_manifest(entries, file_name="m", file_size=1, partition_types=(data_type,))
    assert meta.partition_stats == SimpleStats(
        min_values=partition(data_type, expected[0]),
        max_values=partition(data_type, expected[1]),
        null_counts=(expected[2],),
    )


def test_counts_and_bounds_of_a_manifest() -> None:
    entries = [
        an_entry(bucket=3, file=replace(FULL_FILE, level=5, schema_id=1)),
        an_entry(bucket=1, file=replace(FULL_FILE, level=0, first_row_id=50)),
        an_entry(kind=FileKind.DELETE, bucket=2, file=FULL_FILE),
    ]
    meta = describe_manifest(entries, file_name="m", file_size=9, partition_types=())
    assert (meta.num_added_files, meta.num_deleted_files) == (2, 1)
    assert (meta.min_bucket, meta.max_bucket, meta.min_level, meta.max_level) == (1, 3, 0, 5)
    assert (meta.schema_id, meta.file_size) == (7, 9)
    assert (meta.min_row_id, meta.max_row_id) == (10, 52)
