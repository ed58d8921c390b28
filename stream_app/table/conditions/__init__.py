"""Parses conditions on rows, and skips files without a matching row. Start with `row_filter`."""
