"""Casts JSON columns to the table's types, for every format. Start with `column_cast`."""
