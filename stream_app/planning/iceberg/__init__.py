"""Decides the content of a table's Iceberg metadata."""
