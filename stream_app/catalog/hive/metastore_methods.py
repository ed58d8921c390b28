"""Methods of a Hive metastore that its catalog and Iceberg's pointer both call, and their errors.

Source: Hive `hive_metastore.thrift`.
"""

from __future__ import annotations

from stream_app.catalog.hive.metastore_client import Method

META, GONE, EXISTS = "MetaException", "NoSuchObjectException", "AlreadyExistsException"
INVALID, INVALID_OPERATION = "InvalidObjectException", "InvalidOperationException"
GET_DATABASE = Method("get_database", (GONE, META))
CREATE_DATABASE = Method("create_database", (EXISTS, INVALID, META))
GET_TABLE = Method("get_table_req", (META, GONE))
CREATE_TABLE = Method("create_table", (EXISTS, INVALID, META, GONE))
ALTER_TABLE = Method("alter_table_with_environment_context", (INVALID_OPERATION, META))
