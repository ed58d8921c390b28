"""Commits new versions of a table's schema.

`planning.schema` decides what a version may change; this package publishes it.
"""
