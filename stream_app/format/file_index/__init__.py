"""Indexes of single data files, by which readers skip a file: start at `index_kind`."""
