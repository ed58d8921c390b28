"""JSON columns → columns of the table's types, for every format. Start with `column_cast`."""
