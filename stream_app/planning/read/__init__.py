"""Divides a scan into splits, and a stream into steps. Start with `split_generator`."""
