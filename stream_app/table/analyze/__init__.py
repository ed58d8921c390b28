"""Statistics of columns, as Spark's ANALYZE makes them for Paimon. Start with `analysis`."""
