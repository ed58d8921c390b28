"""Decisions about a table's metadata for Iceberg."""
