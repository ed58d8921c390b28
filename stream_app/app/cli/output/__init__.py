"""Rows and changes as `read` and `changelog` print them, and the screen of `top`."""
