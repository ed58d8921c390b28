"""The schema files of a table: ``schema/schema-<n>``.

Source: Paimon `schema/SchemaManager.java`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from stream_app.errors import StreamAppError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.versions.numbered_files import numbers_of
from stream_app.format.schema_json import decode_schema, encode_schema
from stream_app.model.schema.table_schema import TableSchema

_PREFIX = "schema-"


@dataclass(frozen=True, slots=True)
class SchemaManager:
    """Reads and creates schemas of the table at `root`."""

    file_io: FileIO
    root: str

    def ids(self) -> list[int]:
        """Numbers of all schemas, ascending; empty when there is no table."""
        return numbers_of(self.file_io, f"{self.root}/schema", _PREFIX)

    def latest(self) -> TableSchema | None:
        """The newest schema; None when there is no table."""
        ids = self.ids()
        return self.schema(ids[-1]) if ids else None

    def schema(self, schema_id: int) -> TableSchema:
        """One schema.

        Raises:
            FileNotFoundError: it is not there.
            CorruptFileError: it is not a schema.
        """
        path = self.path(schema_id)
        data = self.file_io.read_bytes(path)
        try:
            return decode_schema(data)
        except StreamAppError as error:
            raise type(error)(error.what, where=path, fix=error.fix) from error

    def fingerprint(self) -> str:
        """A digest of the table's first schema, which has its creation time, so no other table
        shares it.
        """
        try:
            data = self.file_io.read_bytes(self.path(0))
        except FileNotFoundError:
            data = self.file_io.read_bytes(self.path(self.ids()[0]))
        return hashlib.sha256(data).hexdigest()

    def create(self, schema: TableSchema) -> bool:
        """Write a schema; return False when one of that number exists already."""
        return self.file_io.create_if_absent(self.path(schema.schema_id), encode_schema(schema))

    def path(self, schema_id: int) -> str:
        """The path of a schema's file."""
        return f"{self.root}/schema/{_PREFIX}{schema_id}"
