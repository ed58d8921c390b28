"""Defines the checksum of a table's rows, and which tables have one."""
