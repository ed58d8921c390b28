"""The checksum of a table's rows: its value, and the tables that have one."""
