"""Finds tables by their names in catalogs, and publishes their snapshots there."""
