"""Reads a table's source again, to compare with it in `check --conf`. Start with `comparison`."""
