"""Conditions on rows: text → tree, and what a tree says of columns. Start with `parser`."""
