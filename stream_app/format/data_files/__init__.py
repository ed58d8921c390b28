"""Reads and writes data files in several file formats; `registry` lists them."""
