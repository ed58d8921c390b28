"""The only package that imports PySpark. Start with `micro_batch`."""
