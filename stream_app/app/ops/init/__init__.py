"""What `init` makes a configuration of: a table of a database, in TOML."""
