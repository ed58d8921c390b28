"""Decides changes of a table's schema, by a user (`alteration`) or by messages (`evolution`)."""
