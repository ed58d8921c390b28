"""Values of a column's old type as values of its new one, as Paimon reads them; see `rules`."""
