"""Reads files without the rows that their deletion vectors mark.

Source: Paimon `deletionvectors/ApplyDeletionVectorReader.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.format.deletion_vector import live_rows
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True)
class LiveRowsReader:
    """Implements `KeyValueFileReader`.

    Attributes:
        files: reads files without a vector; may leave row groups out.
        whole: reads files with one, all rows of them: a vector counts them all.
    """

    files: KeyValueFileReader
    whole: KeyValueFileReader
    vectors: BucketVectors

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted, in its order."""
        vector = self.vectors.get(file.file_name)
        if vector is None:
            return self.files.read(file)
        return live_rows(self.whole.read(file), vector)
