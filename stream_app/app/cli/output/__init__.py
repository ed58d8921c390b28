"""Rows and changes as `read` and `changelog` print them."""
