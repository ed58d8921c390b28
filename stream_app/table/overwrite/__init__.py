"""Replaces the files of partitions, by other rows or by the same rows in other buckets.

Start with `overwrite` and `rescale`.
"""
