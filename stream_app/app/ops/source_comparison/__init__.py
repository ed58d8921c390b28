"""Compares tables with their sources.

`topic_comparison` reads the topics of a job again. `sum_sides` compares checksums with those of a
database or of another table.
"""
