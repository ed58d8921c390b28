"""Reads and writes files; no other package touches a table's file system. Start with `file_io`."""
