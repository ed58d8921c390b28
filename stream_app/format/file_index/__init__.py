"""Indexes of single data files, by which readers skip files. Start with `index_kind`."""
