"""Columns, types and keys of a table. Start with `table_schema`."""
