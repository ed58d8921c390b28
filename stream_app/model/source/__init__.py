"""What a source tells of its tables: their origin, columns and types. Start with `source_table`."""
