"""Verbs for the schemas of tables: what they are made from, and how they change."""
