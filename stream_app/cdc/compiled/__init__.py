"""Decodes JSON and Avro by machine code that Numba makes of Python.

Start with `image_columns`. The extra `compiled` brings Numba. The code declines messages that it
cannot parse, and the caller reads those with NumPy and Arrow, as without the extra. Only formats
load this package, and only for a table whose option `decoder` allows it.
"""
