"""Judges decoded records before the shuffle, in steps of a table's pipeline."""
