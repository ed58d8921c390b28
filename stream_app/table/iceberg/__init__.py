"""Publishes the versions of a table as versions of an Iceberg table."""
