"""Lists the metastore's methods that the catalog and Iceberg's pointer call, with their errors.

Source: Hive `hive_metastore.thrift`.
"""

from __future__ import annotations

from stream_app.catalog.hive.metastore_client import MetastoreMethod

META, GONE, EXISTS = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
INVALID, INVALID_OPERATION = "InvalidObjectException", "InvalidOperationException"
GET_DATABASE = MetastoreMethod("get_database", (GONE, META))
CREATE_DATABASE = MetastoreMethod("create_database", (EXISTS, INVALID, META))
GET_TABLE = MetastoreMethod("get_table_req", (META, GONE))
CREATE_TABLE = MetastoreMethod("create_table", (EXISTS, INVALID, META, GONE))
ALTER_TABLE = MetastoreMethod("alter_table_with_environment_context", (INVALID_OPERATION, META))
