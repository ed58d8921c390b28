"""Declares the table options of Iceberg's metadata, which a table has beside Paimon's.

Keys and defaults are Paimon's (1.4, `iceberg/IcebergOptions.java`). `core_options` parses them.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, CHOICE, INTEGER, TEXT, Option

DISABLED = "disabled"
TABLE_LOCATION = "table-location"
HADOOP_CATALOG = "hadoop-catalog"
HIVE_CATALOG = "hive-catalog"
REST_CATALOG = "rest-catalog"
CATALOG_LOCATION = "catalog-location"
HIVE_CLIENT = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
GLUE_CLIENT = "com.amazonaws.glue.catalog.metastore.AWSCatalogMetastoreClient"
REST_PREFIX = "metadata.iceberg.rest."
"""The prefix of the settings of an Iceberg REST catalog; its client defines their names."""

METADATA_ICEBERG_STORAGE = Option(
    "metadata.iceberg.storage",
    CHOICE,
    DISABLED,
    "Where each commit also publishes the table as an Iceberg table over the same files: "
    "table-location (in the table's folder), hadoop-catalog (below iceberg/ in the warehouse, "
    "which is the warehouse of an Iceberg catalog of type hadoop), hive-catalog (below iceberg/ "
    "too, and a Hive metastore names each version) or rest-catalog (below iceberg/ too, and an "
    "Iceberg REST catalog gets each version; metadata.iceberg.rest.uri is its address).",
    only=(DISABLED, TABLE_LOCATION, HADOOP_CATALOG, HIVE_CATALOG, REST_CATALOG),
)
METADATA_ICEBERG_DATABASE = Option(
    "metadata.iceberg.database",
    TEXT,
    "",
    "The database in the Iceberg catalog (default: the table's database in Paimon).",
)
METADATA_ICEBERG_TABLE = Option(
    "metadata.iceberg.table",
    TEXT,
    "",
    "The table's name in the Iceberg catalog (default: its name in Paimon).",
)
METADATA_ICEBERG_STORAGE_LOCATION = Option(
    "metadata.iceberg.storage-location",
    CHOICE,
    "",
    "The folder of Iceberg's metadata: table-location or catalog-location (default: as "
    "metadata.iceberg.storage says).",
    only=("", TABLE_LOCATION, CATALOG_LOCATION),
)
METADATA_ICEBERG_FORMAT_VERSION = Option(
    "metadata.iceberg.format-version",
    INTEGER,
    2,
    "Version of Iceberg's format, 2 or 3. Version 3 has deletion vectors and nanoseconds.",
    minimum=2,
    maximum=3,
)
METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM = Option(
    "metadata.iceberg.compaction.min.file-num",
    INTEGER,
    10,
    "Minimum number of small Iceberg manifests that a commit merges, once they fill a manifest "
    "together.",
    minimum=1,
)
METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM = Option(
    "metadata.iceberg.compaction.max.file-num",
    INTEGER,
    50,
    "Number of small Iceberg manifests from which on a commit merges them, whatever their size.",
    minimum=1,
)
METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED = Option(
    "metadata.iceberg.delete-after-commit.enabled",
    BOOLEAN,
    True,
    "Each commit deletes Iceberg's older metadata files (vN.metadata.json).",
)
METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX = Option(
    "metadata.iceberg.previous-versions-max",
    INTEGER,
    0,
    "Number of Iceberg's older metadata files that stay. A reader that has opened such a file may "
    "need it again.",
    minimum=0,
)
METADATA_ICEBERG_MANIFEST_COMPRESSION = Option(
    "metadata.iceberg.manifest-compression",
    CHOICE,
    "snappy",
    "Codec of Iceberg's manifests; null leaves them uncompressed.",
    only=("snappy", "zstd", "deflate", "null"),
)
METADATA_ICEBERG_URI = Option(
    "metadata.iceberg.uri",
    TEXT,
    "",
    "The Hive metastore of hive-catalog: thrift://HOST:PORT. Default: the metastore that "
    "hive-site.xml names.",
)
METADATA_ICEBERG_HIVE_CONF_DIR = Option(
    "metadata.iceberg.hive-conf-dir",
    TEXT,
    "",
    "The driver's folder with the hive-site.xml of hive-catalog. Default: the folder that the "
    "variable HIVE_CONF_DIR names.",
)
METADATA_ICEBERG_HIVE_CLIENT_CLASS = Option(
    "metadata.iceberg.hive-client-class",
    TEXT,
    HIVE_CLIENT,
    "The client of hive-catalog, by the name of Paimon's class: the client of a Hive metastore, or "
    "that of AWS Glue (" + GLUE_CLIENT + "). The driver's environment has Glue's region and keys.",
)
METADATA_ICEBERG_HIVE_SKIP_UPDATE_STATS = Option(
    "metadata.iceberg.hive-skip-update-stats",
    BOOLEAN,
    False,
    "The Hive metastore of hive-catalog counts no files and bytes of the table.",
)
METADATA_ICEBERG_GLUE_SKIP_ARCHIVE = Option(
    "metadata.iceberg.glue.skip-archive",
    BOOLEAN,
    False,
    "Glue keeps no older version of the table's entry.",
)
METADATA_ICEBERG_SQL_URI = Option(
    "metadata.iceberg.sql.uri",
    TEXT,
    "",
    "The database of an Iceberg catalog of type jdbc or sql that names each version, beside "
    "table-location or hadoop-catalog: jdbc:postgresql://HOST:PORT/DATABASE?user=me, jdbc:mysql:…, "
    "jdbc:mariadb:… or jdbc:sqlite:FILE. The driver's environment has the password (PGPASSWORD, "
    "MYSQL_PWD).",
    is_own=True,
)
METADATA_ICEBERG_SQL_CATALOG_NAME = Option(
    "metadata.iceberg.sql.catalog-name",
    TEXT,
    "iceberg",
    "The name of the Iceberg catalog in the database of metadata.iceberg.sql.uri.",
    is_own=True,
)
