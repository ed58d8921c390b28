"""Catalogs: tables by their names, and the last step of each commit."""
