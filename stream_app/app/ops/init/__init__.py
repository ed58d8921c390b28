"""Reads the definition of a database's table, and writes a configuration for it in TOML."""
