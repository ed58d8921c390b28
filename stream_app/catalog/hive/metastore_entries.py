"""Reads and writes entries of a metastore, for the catalog and for Iceberg's pointer.

Source: Hive `hive_metastore.thrift`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from stream_app.catalog.hive.metastore_client import MetastoreClient, MetastoreMethod, RefusedError
from stream_app.catalog.hive.thrift_struct import Struct, inner_struct, text, text_map
from stream_app.catalog.identifier import Identifier

META = "MetaException"
EXISTS = "AlreadyExistsException"
INVALID = "InvalidObjectException"
_GONE = "NoSuchObjectException"
_INVALID_OPERATION = "InvalidOperationException"
_GET_DATABASE = MetastoreMethod("get_database", (_GONE, META))
_CREATE_DATABASE = MetastoreMethod("create_database", (EXISTS, INVALID, META))
_GET_TABLE = MetastoreMethod("get_table_req", (META, _GONE))
_CREATE_TABLE = MetastoreMethod("create_table", (EXISTS, INVALID, META, _GONE))
_ALTER_TABLE = MetastoreMethod("alter_table_with_environment_context", (_INVALID_OPERATION, META))


def database_entry(client: MetastoreClient, name: str) -> Struct | None:
    """Return the entry of a database; None if it does not exist."""
    with suppress(RefusedError):
        return client.ask(_GET_DATABASE, text(name), expected_kind=_GONE, name=name).struct(0)
    return None


def create_database_entry(client: MetastoreClient, name: str, entry: Struct) -> None:
    """Create a database, unless another process has just created it."""
    with suppress(RefusedError):
        client.ask(_CREATE_DATABASE, inner_struct(entry), expected_kind=EXISTS, name=name)


def table_entry(client: MetastoreClient, identifier: Identifier) -> Struct | None:
    """Return the entry of a table; None if it does not exist."""
    request = inner_struct(Struct({1: text(identifier.database), 2: text(identifier.table)}))
    with suppress(RefusedError):
        answer = client.ask(_GET_TABLE, request, expected_kind=_GONE, name=str(identifier))
        return answer.struct(0).struct(1)
    return None


def create_table_entry(client: MetastoreClient, identifier: Identifier, entry: Struct) -> bool:
    """Create a table; return False if its name is taken."""
    try:
        client.ask(_CREATE_TABLE, inner_struct(entry), expected_kind=EXISTS, name=str(identifier))
    except RefusedError:
        return False
    return True


def alter_table_entry(
    client: MetastoreClient, identifier: Identifier, entry: Struct, context: Mapping[str, str]
) -> None:
    """Replace the entry of a table, whose partitions follow.

    Args:
        context: further parameters of the call.
    """
    client.ask(
        _ALTER_TABLE, text(identifier.database), text(identifier.table), inner_struct(entry),
        inner_struct(Struct({1: text_map({"CASCADE": "true", **context})})), name=str(identifier),
    )  # fmt: skip
