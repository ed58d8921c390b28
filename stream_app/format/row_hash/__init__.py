"""An order-free checksum of rows, which a database can compute too. Start with `row_sums`."""
