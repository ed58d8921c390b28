"""Declares the options of a table: keys, types, defaults. Start with `core_options`."""
