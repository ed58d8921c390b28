"""Computes columns that messages lack, from other columns or from a message's metadata."""
