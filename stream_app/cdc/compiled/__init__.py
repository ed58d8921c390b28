"""Decodes JSON and Avro by machine code that Numba makes of Python.

Start with `image_columns`. The extra `compiled` brings Numba. The code declines messages that it
cannot parse: the caller reads those with NumPy and Arrow, as without the extra. Only the formats
load it, and only when chosen.
"""
