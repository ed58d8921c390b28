"""The checksum of a table's rows: its values, and the tables that have one."""
