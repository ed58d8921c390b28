"""Decisions of a job of a whole database: which source tables it takes, and as which tables."""
