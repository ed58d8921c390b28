"""Implements the catalog in a Hive metastore."""
