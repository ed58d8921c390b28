"""Describes the tables of a source: their origin, columns and types. Start with `source_table`."""
