"""Describes the tables of a source: their origin, columns, types and renames.

Start with `source_table`.
"""
