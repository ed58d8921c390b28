"""Changes of a table's schema: by hand (`alteration`), and by its messages (`evolution`)."""
