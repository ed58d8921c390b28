"""Manifests and manifest lists of a table.

Source: Paimon `manifest/ManifestFile.java`, `manifest/ManifestList.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import (
    FileStorePathFactory,
    new_manifest_list_name,
    new_manifest_name,
)
from stream_app.format.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    describe_manifest,
    encode_manifest,
    encode_manifest_list,
)
from stream_app.model.manifest_entry import ManifestEntry, ManifestFileMeta


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Reads and writes manifests.

    Attributes:
        codec: ``manifest.compression``.
        target_size: bytes at which a manifest is split (``manifest.target-file-size``).
    """

    file_io: FileIO
    paths: FileStorePathFactory
    codec: str
    target_size: int

    def read_list(self, name: str) -> list[ManifestFileMeta]:
        """The manifests that a manifest list names.

        Raises:
            CorruptFileError: it is missing or unreadable.
        """
        return decode_manifest_list(self._read(name))

    def read_manifest(self, name: str) -> list[ManifestEntry]:
        """The entries of a manifest.

        Raises:
            CorruptFileError: it is missing or unreadable.
        """
        return decode_manifest(self._read(name))

    def write_list(self, metas: Sequence[ManifestFileMeta]) -> tuple[str, int]:
        """Write a manifest list; its name and its size in bytes."""
        name = new_manifest_list_name()
        data = encode_manifest_list(metas, codec=self.codec)
        self.file_io.write_bytes(self.paths.manifest(name), data)
        return name, len(data)

    def write_manifests(self, entries: Sequence[ManifestEntry]) -> list[ManifestFileMeta]:
        """Write entries as manifests of at most about the target size; none without entries."""
        if not entries:
            return []
        data = encode_manifest(entries, codec=self.codec)
        if len(data) > self.target_size and len(entries) > 1:
            half = len(entries) // 2
            return self.write_manifests(entries[:half]) + self.write_manifests(entries[half:])
        name = new_manifest_name()
        self.file_io.write_bytes(self.paths.manifest(name), data)
        meta = describe_manifest(
            entries,
            file_name=name,
            file_size=len(data),
            partition_types=self.paths.partition_type.types,
        )
        return [meta]

    def delete(self, name: str) -> None:
        """Delete a manifest or list that no snapshot names."""
        self.file_io.delete(self.paths.manifest(name))

    def _read(self, name: str) -> bytes:
        path = self.paths.manifest(name)
        try:
            return self.file_io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptFileError(
                "a manifest that a snapshot names is missing",
                where=path,
                fix="if the snapshot has just expired read a newer one; else restore the file",
            ) from None
        except CorruptFileError as error:
            raise CorruptFileError(error.what, where=path, fix=error.fix) from error
