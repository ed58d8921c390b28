"""The vocabulary: frozen values without I/O, Arrow or Spark. Start with `schema.data_type`."""
