"""Iceberg's metadata of a table, as values."""
