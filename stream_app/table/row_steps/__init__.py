"""Judges decoded rows by the rules of their table, in steps of its pipeline."""
