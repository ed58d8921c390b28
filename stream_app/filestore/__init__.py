"""Reads and writes each kind of file of a table by name. Start with `path_factory`."""
