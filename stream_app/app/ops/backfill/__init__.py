"""Adds changes that a table lacks, from its topics or database. Start with `topic_backfill`."""
