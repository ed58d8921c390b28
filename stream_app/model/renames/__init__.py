"""Parses and records the renames in the source's DDL statements."""
