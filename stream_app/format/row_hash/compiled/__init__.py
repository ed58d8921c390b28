"""Hashes rows by machine code. Start with `hashed_columns`; `row_sums` alone loads it."""
