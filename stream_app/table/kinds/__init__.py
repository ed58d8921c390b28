"""The kinds of tables: how each is written and compacted. Start with `table_kind`."""
