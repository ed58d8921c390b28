"""The kinds of tables: how each is written and compacted. Start with `kind_parts`."""
