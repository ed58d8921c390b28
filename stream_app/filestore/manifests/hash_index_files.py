"""Reads and writes files with the hashes of a bucket's keys, for ``bucket = -1`` with a key.

Source: Paimon `index/HashIndexFile.java`, `index/IndexFileHandler.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.path_factory import FileStorePathFactory, new_name
from stream_app.format.hash_index import Hashes, decode_hashes, encode_hashes
from stream_app.model.files.index_file_meta import HASH_INDEX, IndexFileMeta, IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind


@dataclass(frozen=True, slots=True)
class HashIndexFiles:
    """The hash index files of one table."""

    file_io: FileIO
    paths: FileStorePathFactory

    def read(self, entry: IndexManifestEntry) -> Hashes:
        """Return the hashes of one file in ascending order: int32 [n].

        Raises:
            CorruptFileError: the file is missing, or its size differs from its metadata.
        """
        file = entry.index_file
        path = self.paths.index_file(*entry.bucket_id, file)
        try:
            return decode_hashes(self.file_io.read_bytes(path), file.row_count)
        except FileNotFoundError:
            raise CorruptFileError(
                "an index file of hashes that an index manifest names is missing",
                where=path,
                fix="if the snapshot has just expired, read a newer one; else restore the file",
            ) from None
        except CorruptFileError as error:
            raise CorruptFileError(error.problem, where=path, fix=error.fix) from error

    def write(self, partition: bytes, bucket: int, hashes: Hashes) -> IndexManifestEntry:
        """Write the hashes of a bucket, and return the ADD entry of the new file.

        Args:
            hashes: int32 [n], distinct.
        """
        data = encode_hashes(hashes)
        entry = IndexManifestEntry(
            kind=FileKind.ADD,
            partition=partition,
            bucket=bucket,
            index_file=IndexFileMeta(
                index_type=HASH_INDEX,
                file_name=new_name("index"),
                file_size=len(data),
                row_count=len(hashes),
            ),
        )
        self.file_io.write_bytes(self.paths.index_file(partition, bucket, entry.index_file), data)
        return entry
