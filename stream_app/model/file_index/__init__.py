"""Indexes of data files as the table's options ask for them."""
