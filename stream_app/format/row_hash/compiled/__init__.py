"""Hashes rows by machine code. Start with `hashed_columns`; `row_hashes` alone loads it."""
