"""Converts values of a column's old type to its new type as Paimon's readers do; see `rules`."""
