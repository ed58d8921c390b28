"""Writes the changes that a table lacks, from its topics or its database. Start with
`topic_backfill`.
"""
