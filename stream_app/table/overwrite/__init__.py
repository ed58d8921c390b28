"""Replaces the rows of a table or of its partitions."""
