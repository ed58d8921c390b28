"""Looks up tables by name in catalogs, and publishes their snapshots there."""
