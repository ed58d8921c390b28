"""Reads and writes each kind of a table's files by name. Start with `path_factory`."""
