"""Keeps copies of data files on local disk, for look-ups by key. Start with `lookup_copies`."""
