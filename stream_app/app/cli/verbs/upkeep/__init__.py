"""Verbs for the upkeep of one table: expiry, tags, rollback, deletion of rows and files."""
