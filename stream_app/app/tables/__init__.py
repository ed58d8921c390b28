"""What a configuration means for tables: schemas, message formats, folders, warnings."""
