"""Verbs that keep one table in order: expiry, tags, rollback, deletion of rows and files."""
