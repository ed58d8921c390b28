"""Verbs that keep one table in order: what expires, tags, going back, rows and files deleted."""
