"""Reads and writes files; the only package that touches a file system. Start with `file_io`."""
