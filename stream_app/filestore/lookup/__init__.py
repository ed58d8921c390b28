"""Copies of data files on local disk, asked by key. Start with `lookup_copies`."""
