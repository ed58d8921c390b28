"""Verbs for the upkeep of one table, which need no Spark.

They expire versions and partitions, create and delete tags, change the schema, and manage branches.
They also roll back, rescale, truncate, analyze, and remove orphans.
"""
