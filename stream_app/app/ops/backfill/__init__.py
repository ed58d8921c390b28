"""Reads a table's topics again, and writes the differences. Start with `backfill`."""
