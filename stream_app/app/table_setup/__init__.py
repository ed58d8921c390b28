"""Prepares the tables of a job by its configuration.

The modules create and check the tables, and make their schemas, message formats, pipelines and
warnings. They also decide which source tables a job
refuses, whose renames a table follows, and whether a table can be compared with its source.
"""
