"""Values of VARIANT columns: their bytes, JSON, and the typed columns of shredded files.

Start with `layout`, which defines the binary format. `scalars` and `containers` write it, and
`variant_reader` reads it. `json_column` converts from JSON, and `json_texts` converts to JSON.
"""
