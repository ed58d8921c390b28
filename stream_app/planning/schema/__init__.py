"""Decides changes of a table's schema: by a user (`alteration`), and by messages (`evolution`)."""
