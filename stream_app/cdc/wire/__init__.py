"""Values of a registry's schemas: their bytes, in columns and one by one. Start with `value_cursor`."""
