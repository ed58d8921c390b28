"""File formats of data files; `registry` lists them."""
