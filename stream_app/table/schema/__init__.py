"""New versions of a table's schema."""
