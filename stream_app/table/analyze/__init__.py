"""Computes statistics of columns, as Spark's ANALYZE does for Paimon. Start with `analysis`."""
