"""Reads and writes a table's Iceberg metadata: ``metadata/vN.metadata.json`` and its manifests.

Source: Paimon `iceberg/IcebergPathFactory.java`; Iceberg `hadoop/HadoopTableOperations.java`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import read_hint
from stream_app.format.iceberg.manifests import (
    ManifestKind,
    decode_iceberg_manifest,
    decode_iceberg_manifest_list,
    encode_iceberg_manifest,
    encode_iceberg_manifest_list,
    partition_summaries,
)
from stream_app.format.iceberg.metadata_json import decode_metadata, encode_metadata
from stream_app.model.iceberg_metadata import (
    EntryStatus,
    IcebergEntry,
    IcebergManifest,
    IcebergMetadata,
    ManifestContent,
)
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.iceberg_options import (
    CATALOG_LOCATION,
    HADOOP_CATALOG,
    HIVE_CATALOG,
    METADATA_ICEBERG_MANIFEST_COMPRESSION,
    METADATA_ICEBERG_STORAGE,
    METADATA_ICEBERG_STORAGE_LOCATION,
    REST_CATALOG,
)

_T = TypeVar("_T")
_DATABASE, _PUFFIN = ".db", ".puffin"
_IN_CATALOG = (HADOOP_CATALOG, HIVE_CATALOG, REST_CATALOG)
_VERSION = re.compile(r"v(\d{1,18})\.metadata\.json", re.ASCII)

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_METADATA = re.compile(rf"(?:v\d{{1,18}}|00000-{_UUID})\.metadata\.json", re.ASCII)
_MANIFEST_OR_PUFFIN = re.compile(rf"{_UUID}-m\d+\.avro|snap-\d+-{_UUID}\.avro|.+\.puffin", re.ASCII)


def is_metadata_file(name: str) -> bool:
    """Return whether a file of this name has the metadata of a version or of a registration."""
    return _METADATA.fullmatch(name) is not None


def is_paimon_metadata_file(name: str) -> bool:
    """Return whether a writer of Paimon metadata made a file of this name."""
    return is_metadata_file(name) or _MANIFEST_OR_PUFFIN.fullmatch(name) is not None


def iceberg_folder(table_location: str, options: CoreOptions) -> str:
    """Return the folder of a table's Iceberg metadata.

    Args:
        table_location: the table's folder.

    Raises:
        UnsupportedTableError: the table is not in a warehouse's database.
    """
    storage = options[METADATA_ICEBERG_STORAGE]
    default = CATALOG_LOCATION if storage in _IN_CATALOG else None
    if (options[METADATA_ICEBERG_STORAGE_LOCATION] or default) != CATALOG_LOCATION:
        return f"{table_location}/metadata"
    warehouse, database, name = ["", "", *table_location.rsplit("/", 2)][-3:]
    if not database.endswith(_DATABASE):
        raise UnsupportedTableError(
            f"{METADATA_ICEBERG_STORAGE.key} = {storage} needs a table in a database's "
            "folder, such as warehouse/shop.db/orders",
            where=table_location,
            fix=f"set {METADATA_ICEBERG_STORAGE_LOCATION.key} = table-location",
        )
    return f"{warehouse}/iceberg/{database.removesuffix(_DATABASE)}/{name}/metadata"


@dataclass(frozen=True, slots=True)
class IcebergFiles:
    """The files of an Iceberg metadata folder.

    Attributes:
        codec: the codec of manifests and their lists.
    """

    file_io: FileIO
    folder: str
    codec: str

    @classmethod
    def of_table(cls, file_io: FileIO, table_location: str, options: CoreOptions) -> IcebergFiles:
        """Return the access to a table's files.

        Raises:
            UnsupportedTableError: as `iceberg_folder`.
        """
        folder = iceberg_folder(table_location, options)
        return cls(file_io, folder, options[METADATA_ICEBERG_MANIFEST_COMPRESSION])

    def latest_version(self) -> int | None:
        """Return the number in the hint, or else the greatest; None before any publication."""
        version = read_hint(self.file_io, self._hint)
        if version is not None:
            return version
        names = self.file_io.list_names(self.folder)
        return max(
            (int(match[1]) for match in map(_VERSION.fullmatch, names) if match), default=None
        )

    def version_path(self, version: int) -> str:
        """Return the path of a version's file."""
        return f"{self.folder}/v{version}.metadata.json"

    def version_at(self, path: str) -> int | None:
        """Return the number of the version whose file has a path; None in another folder."""
        match = _VERSION.fullmatch(path.removeprefix(f"{self.folder}/"))
        return int(match[1]) if match else None

    def read_version(self, version: int) -> IcebergMetadata | None:
        """Read a version; None if its file is gone.

        Raises:
            CorruptFileError: the file cannot be read.
        """
        try:
            return self._read(
                self.version_path(version), lambda data: decode_metadata(data, version)
            )
        except FileNotFoundError:
            return None

    def publish(self, metadata: IcebergMetadata) -> bool:
        """Write a version's metadata, then the hint, and return whether the version is new.

        If the version exists, the writer that made it may have crashed before the hint. So this
        writes the hint for it too, unless the hint already names it or a newer version.
        """
        version = metadata.version
        is_new = self.file_io.create_if_absent(
            self.version_path(version), encode_metadata(metadata)
        )
        if is_new or (read_hint(self.file_io, self._hint) or 0) < version:
            self.file_io.overwrite(self._hint, str(version).encode())
        return is_new

    def read_list(self, path: str) -> list[IcebergManifest]:
        """Return the manifests of a list.

        Raises:
            FileNotFoundError, CorruptFileError: it is missing or unreadable.
        """
        return self._read(path, decode_iceberg_manifest_list)

    def read_manifest(self, path: str) -> list[IcebergEntry]:
        """Return the entries of a manifest.

        Raises:
            FileNotFoundError, CorruptFileError: it is missing or unreadable.
        """
        return self._read(path, decode_iceberg_manifest)

    def write_list(self, manifests: Iterable[IcebergManifest], snapshot_id: int) -> str:
        """Write the list of a snapshot's manifests, and return its path."""
        path = f"{self.folder}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
        properties = {"snapshot-id": str(snapshot_id)}
        self.file_io.write_bytes(
            path, encode_iceberg_manifest_list(manifests, self.codec, properties)
        )
        return path

    def write_manifest(
        self,
        entries: Sequence[IcebergEntry],
        content: ManifestContent,
        manifest_kind: ManifestKind,
        *,
        snapshot_id: int,
        sequence_number: int,
    ) -> IcebergManifest:
        """Write a manifest, and return its entry for the manifest list."""
        path = f"{self.folder}/{uuid.uuid4()}-m0.avro"
        data = encode_iceberg_manifest(entries, content, manifest_kind, self.codec)
        self.file_io.write_bytes(path, data)
        entries_by_status = {
            status: [entry for entry in entries if entry.status is status] for status in EntryStatus
        }
        live_entries = [entry for entry in entries if entry.status is not EntryStatus.DELETED]
        return IcebergManifest(
            path=path,
            length=len(data),
            content=content,
            sequence_number=sequence_number,
            min_sequence_number=min(
                (entry.sequence_number for entry in live_entries), default=sequence_number
            ),
            snapshot_id=snapshot_id,
            file_counts={
                status: len(entries_of_status)
                for status, entries_of_status in entries_by_status.items()
            },
            row_counts={
                status: sum(entry.file.row_count for entry in entries_of_status)
                for status, entries_of_status in entries_by_status.items()
            },
            partitions=partition_summaries(entries, manifest_kind.partition_type),
        )

    def puffin_path(self, index_file_name: str) -> str:
        """Return the path of the Puffin copy of an index file."""
        return f"{self.folder}/{index_file_name}{_PUFFIN}"

    def copied_index_file_name(self, path: str) -> str:
        """Return the name of the index file that a Puffin file copies."""
        return path.removeprefix(f"{self.folder}/").removesuffix(_PUFFIN)

    def puffin_paths(self) -> list[str]:
        """Return the paths of all Puffin files."""
        names = self.file_io.list_names(self.folder)
        return [f"{self.folder}/{name}" for name in names if name.endswith(_PUFFIN)]

    def write(self, path: str, data: bytes) -> None:
        """Write a file. An existing file of this name has the same content."""
        self.file_io.overwrite(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files that no version needs."""
        for path in paths:
            self.file_io.delete(path)

    @property
    def _hint(self) -> str:
        return f"{self.folder}/version-hint.text"

    def _read(self, path: str, decode: Callable[[bytes], _T]) -> _T:
        data = self.file_io.read_bytes(path)
        try:
            return decode(data)
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error
