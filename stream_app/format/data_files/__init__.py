"""Reads and writes data files in several file formats; `data_file_registry` lists them."""
