"""What Iceberg's metadata says of a table."""
