"""The catalog in tables of a database."""
