"""Finds versions of a table, and the files of a version. Start with `file_store_scan`.

`read_refusals` and `compact_refusals` refuse what this process would read or compact wrongly.
"""
