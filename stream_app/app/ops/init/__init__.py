"""Reads a table of a database for `init`, and writes its configuration in TOML."""
