"""Makes schemas, message formats, checks and warnings of tables from a configuration."""
