"""Defines the vocabulary: frozen values without I/O, Arrow or Spark. Start with `data_type`."""
