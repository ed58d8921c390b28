"""Each kind of file of a table, read and written by name. Start with `path_factory`."""
