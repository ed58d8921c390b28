"""Makes schemas, message formats, folders and warnings of tables from a configuration."""
