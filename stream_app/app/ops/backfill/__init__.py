"""Reads a table's topics again, and writes what the table has otherwise. Start with `backfill`."""
