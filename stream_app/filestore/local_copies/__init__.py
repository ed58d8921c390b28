"""Keeps copies of data files on local disk, for lookups by key. Start with `lookup_copies`."""
