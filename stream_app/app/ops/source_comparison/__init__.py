"""Compares tables with their sources.

`comparison` reads the topics of a job again. `sum_sides` compares checksums with those of a
database or of another table.
"""
