"""What `check --conf` compares a table with: its source, read again. Start with `comparison`."""
