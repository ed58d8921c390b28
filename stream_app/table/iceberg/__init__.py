"""Publishes the versions of a table as those of an Iceberg table."""
