"""Decides conflicts and retries of a commit, and what its snapshot records.

Start with `conflict_detection`.
"""
