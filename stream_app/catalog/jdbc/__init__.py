"""Implements the catalog whose entries are rows of a database."""
