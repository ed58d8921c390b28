"""Compacts tables without keys: joins small files. Start with `append_coordinator`."""
