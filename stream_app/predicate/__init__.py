"""Parses conditions on rows, and derives what they imply for columns. Start with `parser`."""
