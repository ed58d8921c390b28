"""Catalogs: where tables are by their names, and who arbitrates between their writers."""
