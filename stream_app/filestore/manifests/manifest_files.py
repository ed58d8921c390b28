"""Reads and writes manifests, manifest lists and index manifests of a table.

Source: Paimon `manifest/ManifestFile.java`, `manifest/ManifestList.java`,
`manifest/IndexManifestFile.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from stream_app.errors import RESTORE_FIX, CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import FileStorePathFactory, new_name
from stream_app.format.avro.index_manifest_avro import decode_index_manifest, encode_index_manifest
from stream_app.format.avro.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    describe_manifest,
    encode_manifest,
    encode_manifest_list,
)
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import MANIFEST_COMPRESSION, MANIFEST_TARGET_FILE_SIZE

_T = TypeVar("_T")
FIRST_CHUNK = 1000
"""Entries that are encoded first, to measure their size: fewer than a usual target holds."""
ENTRY_SIZE_MIN = 200
"""The assumed minimum bytes of an entry. One may be smaller, but the file also has a header."""


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """The manifests and manifest lists of one table.

    Attributes:
        options: the table's ``manifest.compression`` and ``manifest.target-file-size``, for
            writing.
    """

    file_io: FileIO
    paths: FileStorePathFactory
    options: CoreOptions

    @property
    def codec(self) -> str:
        """The codec for writing; readers use the file's codec."""
        return self.options[MANIFEST_COMPRESSION]

    @property
    def target_size(self) -> int:
        """The bytes beyond which a new manifest begins."""
        return self.options[MANIFEST_TARGET_FILE_SIZE]

    def read_list(self, name: str, size: int | None = None) -> list[ManifestFileMeta]:
        """Return the manifests that a manifest list names.

        Args:
            size: the file's size in the snapshot; None if unknown.

        Raises:
            CorruptFileError: it is missing, of another size, or unreadable.
        """
        return self._read(name, size, decode_manifest_list)

    def read_manifest(self, name: str, size: int | None = None) -> list[ManifestEntry]:
        """Return the entries of a manifest.

        Args:
            size: the file's size in the manifest list; None if unknown.

        Raises:
            CorruptFileError: it is missing, of another size, or unreadable.
        """
        return self._read(name, size, decode_manifest)

    def read_index_manifest(self, name: str | None) -> list[IndexManifestEntry]:
        """Return a snapshot's index files; empty without an index manifest.

        Raises:
            CorruptFileError: the index manifest is missing or unreadable.
        """
        return [] if name is None else self._read(name, None, decode_index_manifest)

    def write_index_manifest(self, entries: Sequence[IndexManifestEntry]) -> str:
        """Write the index manifest of a snapshot, and return its name."""
        name = new_name("index-manifest")
        data = encode_index_manifest(entries, codec=self.codec)
        self.file_io.write_bytes(self.paths.manifest(name), data)
        return name

    def write_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list, and return its name and its size in bytes."""
        name = new_name("manifest-list")
        data = encode_manifest_list(metas, codec=self.codec)
        self.file_io.write_bytes(self.paths.manifest(name), data)
        return name, len(data)

    def write_manifests(self, entries: Iterable[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write entries as manifests, and return these; empty without entries.

        All but the last have the target size or slightly more, because later commits would merge
        smaller ones again. About one manifest's entries are in memory at a time.
        """
        remaining_entries = iter(entries)
        metas: list[ManifestFileMeta] = []
        chunk = list(
            islice(remaining_entries, min(FIRST_CHUNK, 1 + self.target_size // ENTRY_SIZE_MIN))
        )
        while chunk:
            data = encode_manifest(chunk, codec=self.codec)
            if len(data) < self.target_size:
                # Add about as many entries as are still needed, but not one by one.
                missing_count = len(chunk) * (self.target_size - len(data)) // len(data)
                more = list(islice(remaining_entries, max(missing_count, 1 + len(chunk) // 16)))
                if more:
                    chunk += more
                    continue
            metas.append(self._write_manifest(chunk, data))
            chunk = list(islice(remaining_entries, len(chunk)))
        return metas

    def _write_manifest(self, entries: Sequence[ManifestEntry], data: bytes) -> ManifestFileMeta:
        file_name = new_name("manifest")
        self.file_io.write_bytes(self.paths.manifest(file_name), data)
        return describe_manifest(
            entries,
            file_name=file_name,
            file_size=len(data),
            partition_types=self.paths.partition_type.types,
        )

    def delete(self, name: str) -> None:
        """Delete a manifest, list or index manifest that no snapshot names."""
        self.file_io.delete(self.paths.manifest(name))

    def _read(self, name: str, size: int | None, decode: Callable[[bytes], list[_T]]) -> list[_T]:
        """Read and decode a manifest or a list.

        Raises:
            CorruptFileError: the file is missing, of another size, or damaged.
        """
        path = self.paths.manifest(name)
        try:
            data = self.file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(
                "a manifest that a snapshot names is missing",
                where=path,
                fix="if the snapshot has just expired, read a newer one; else restore the file",
            ) from None
        # An Avro file that is truncated between two blocks seems complete.
        if size is not None and size != len(data):
            raise CorruptFileError(
                f"a manifest has {len(data)} bytes, but the file that names it says {size}",
                where=path,
                fix=RESTORE_FIX,
            )
        try:
            return decode(data)
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error
