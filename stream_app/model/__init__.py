"""The vocabulary: frozen values, and the rules of one schema, type or option.

Start with `schema.data_type`. The package has no I/O, Arrow or Spark. `planning` decides about
whole tables.
"""
