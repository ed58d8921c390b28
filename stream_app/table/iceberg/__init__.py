"""Publishes a table's snapshots as versions of an Iceberg table."""
