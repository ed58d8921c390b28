"""Index manifests have Java's schema and records, and damaged ones are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stream_app.errors import CorruptFileError
from stream_app.format.avro.avro_container import read_records, write_records
from stream_app.format.avro.index_manifest_avro import (
    _PARSED_SCHEMA,
    INDEX_MANIFEST_SCHEMA,
    decode_index_manifest,
    encode_index_manifest,
)
from stream_app.format.deletion_vector import decode_deletion_vectors
from stream_app.model.files.data_file_meta import EMPTY_ROW
from stream_app.model.files.index_file_meta import (
    DELETION_VECTORS,
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexFileMeta,
    IndexManifestEntry,
)
from stream_app.model.files.manifest_entry import FileKind
from tests.unit.format.vectors import snapshots_of_tables, unhex

JAVA = [
    pytest.param(entry["indexManifest"], id=label)
    for label, entry in snapshots_of_tables()
    if "indexManifest" in entry
]
GLOBAL_INDEX = GlobalIndexMeta(
    row_range_start=0,
    row_range_end=2**40,
    index_field_id=3,
    extra_field_ids=(4, 5),
    index_meta=b"\0\1",
)


def an_entry(**fields: Any) -> IndexManifestEntry:
    file = IndexFileMeta(
        index_type=DELETION_VECTORS, file_name="index-1", file_size=33, row_count=1
    )
    return IndexManifestEntry(
        kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, index_file=replace(file, **fields)
    )


def records_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The records as Java's reader told them, without what was told of the index files."""
    return [
        {name: value for name, value in unhex(record).items() if name.startswith("_")}
        for record in manifest["records"]
    ]


def test_the_schema_is_javas() -> None:
    schemas = [
        entry["indexManifest"]["avro_schema"]
        for _, entry in snapshots_of_tables()
        if "avro_schema" in entry.get("indexManifest", {})
    ]
    assert schemas
    assert all(schema == INDEX_MANIFEST_SCHEMA for schema in schemas)


@pytest.mark.parametrize("manifest", JAVA)
def test_javas_records_survive(manifest: dict[str, Any]) -> None:
    records = records_of(manifest)
    entries = decode_index_manifest(write_records(_PARSED_SCHEMA, records, "zstd"))
    assert read_records(encode_index_manifest(entries, codec="zstd")) == records
    for entry, record in zip(entries, manifest["records"], strict=True):
        content = bytes.fromhex(record["(bytes of the index file)"])
        assert entry.index_file.file_size == len(content)
        if entry.holds_deletion_vectors:
            metas = entry.index_file.deletion_vectors
            assert metas is not None
            [vector] = decode_deletion_vectors(content, metas).values()
            assert vector.positions().tolist() == [0, 1]


@pytest.mark.parametrize("codec", ["zstd", "deflate", "null"])
def test_entries_survive(codec: str) -> None:
    metas = tuple(
        DeletionVectorMeta(
            data_file_name=f"data-{number}", offset=number, length=24, cardinality=cardinality
        )
        for number, cardinality in enumerate([2**40, None])
    )
    entries = [
        an_entry(deletion_vectors=metas, external_path="file:/elsewhere/index-1"),
        an_entry(deletion_vectors=()),
        an_entry(index_type="HASH"),
        an_entry(index_type="btree", global_index=GLOBAL_INDEX),
        an_entry(
            index_type="btree",
            global_index=replace(GLOBAL_INDEX, extra_field_ids=None, index_meta=None),
        ),
    ]
    assert decode_index_manifest(encode_index_manifest(entries, codec=codec)) == entries
    assert decode_index_manifest(encode_index_manifest([], codec=codec)) == []


def test_what_paimon_2_notes_of_a_global_index_is_carried() -> None:
    entries = [
        an_entry(index_type="btree", global_index=replace(GLOBAL_INDEX, source_meta=b"\7")),
        an_entry(index_type="btree", global_index=GLOBAL_INDEX),
    ]
    assert decode_index_manifest(encode_index_manifest(entries, codec="zstd")) == entries


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_VERSION": 2}, "_VERSION is 2 instead of 1"),
        ({"_KIND": 1}, "_KIND of index-1 is 1 instead of 0"),
    ],
)
def test_an_unknown_version_or_kind_is_refused(change: dict[str, Any], message: str) -> None:
    [record] = read_records(encode_index_manifest([an_entry()], codec="null"))
    data = write_records(_PARSED_SCHEMA, [record | change], "null")
    with pytest.raises(CorruptFileError, match=message) as raised:
        decode_index_manifest(data)
    assert "Paimon version" in raised.value.fix
