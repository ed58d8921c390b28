"""Values of VARIANT columns: their bytes, JSON, and the typed columns of shredded files.

Start with `layout`, which has the bytes' form. `scalars` and `containers` write it, `binary` reads
it. JSON comes in by `json_column`, and goes out by `texts`.
"""
