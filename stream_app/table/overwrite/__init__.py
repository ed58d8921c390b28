"""Puts other rows in the place of a table's rows, or of those of partitions."""
