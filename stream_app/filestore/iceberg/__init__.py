"""Paths and files of a table's metadata for Iceberg."""
