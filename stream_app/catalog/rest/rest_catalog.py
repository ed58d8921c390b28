"""Implements the catalog of Paimon's REST API, whose server has the tables and their folders.

Source: Paimon `rest/RESTCatalog.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.catalog.catalog import Catalog, CatalogTable
from stream_app.catalog.catalog_options import table_defaults
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.rest.data_token import DataToken
from stream_app.catalog.rest.rest_api import EXISTS_STATUS, MISSING_STATUS, RestApi, table_path
from stream_app.catalog.rest.rest_environment import RestEnvironment
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.fileio.store_registry import options_of_stores
from stream_app.format.schema_json import field_objects
from stream_app.model.schema.table_schema import TableSchema

_FILE_STORE_TYPES = ("table", "materialized-table")
_REFUSALS = {
    EXISTS_STATUS: ("something else has this name", "give the database or the table another name"),
    MISSING_STATUS: (
        "it has no such database, even after a request to create one",
        "check 'warehouse' of the catalog, and that nothing drops the database; or create it with "
        "another tool",
    ),
}
"""The reason and the fix by the status of a refused table; the server's own reason precedes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestCatalog(Catalog):
    """The tables in one warehouse of a server.

    Attributes:
        options: the options of the client and the server, for new tables.
        has_data_tokens: whether the server issues credentials for each table's files.
    """

    api: RestApi
    warehouse: str
    options: Mapping[str, str] = field(repr=False)
    file_io_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    has_data_tokens: bool = False

    @property
    def label(self) -> str:
        """The server's address, and the warehouse's name on the server."""
        return f"{self.api.uri}#{self.warehouse}"

    @property
    def table_defaults(self) -> Mapping[str, str]:
        """See `Catalog.table_defaults`; the server may set some."""
        return table_defaults(self.options)

    def list_databases(self) -> list[str]:
        """See `Catalog.list_databases`."""
        return self.api.names("databases")

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog.list_tables`."""
        return self.api.names("databases", database, "tables")

    def create_database(self, database: str) -> None:
        """See `Catalog.create_database`; the database may already exist."""
        self.api.post("databases", body={"name": database, "options": {}})

    def table(self, identifier: Identifier) -> CatalogTable | None:
        """See `Catalog.table`.

        Raises:
            UnsupportedTableError: the table is not a Paimon table.
        """
        # A dollar sign precedes the name of a branch or a system table, which writers cannot use.
        if "$" in identifier.table:
            return None
        response = self.api.get(*table_path(identifier))
        if response.status == MISSING_STATUS:
            return None
        options = response.field("schema", dict).get("options")
        table_type = options.get("type", "table") if isinstance(options, dict) else "table"
        if table_type not in _FILE_STORE_TYPES:
            raise UnsupportedTableError(
                f"{identifier} is a {table_type}, whose files are not Paimon's",
                where=self.label,
                fix="use the engine that created it",
            )
        is_external = response.value.get("isExternal") is True
        token: DataToken | None = None
        file_io_options = self.file_io_options
        # Paimon also opens an external table's files by the catalog's own options.
        if self.has_data_tokens and not is_external:
            token = DataToken(self.api, identifier)
            file_io_options = {**file_io_options, **options_of_stores(token.options())}
        return CatalogTable(
            location=response.field("path", str),
            catalog_environment=RestEnvironment(
                self.api, identifier, response.field("id", str), is_external=is_external
            ),
            file_io_options=file_io_options,
            option_source=token,
        )

    def create_table(self, identifier: Identifier, schema: TableSchema) -> bool:
        """Let the server create the table, after its database if that is missing."""
        body = {
            "identifier": {"database": identifier.database, "object": identifier.table},
            "schema": {
                "fields": field_objects(schema),
                "partitionKeys": list(schema.partition_keys),
                "primaryKeys": list(schema.primary_keys),
                "options": dict(schema.options),
                "comment": schema.comment,
            },
        }
        path = ("databases", identifier.database, "tables")
        response = self.api.post(*path, body=body)
        if response.status == MISSING_STATUS:
            self.create_database(identifier.database)
            response = self.api.post(*path, body=body)
        if response.status == EXISTS_STATUS and self.table(identifier) is not None:
            return False
        if not response.is_success:
            reason, fix = _REFUSALS[response.status]
            raise UsageError(
                f"the catalog refuses to create {identifier}: "
                f"{response.value.get('message') or reason}",
                where=self.label,
                fix=fix,
            )
        return True
