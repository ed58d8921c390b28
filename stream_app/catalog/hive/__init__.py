"""The catalog in a Hive metastore."""
