"""Checks whether a table's metadata, files and history are intact. Start with `table_check`."""
