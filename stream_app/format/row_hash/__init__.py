"""Computes an order-independent checksum of rows, as databases can. Start with `row_hashes`."""
