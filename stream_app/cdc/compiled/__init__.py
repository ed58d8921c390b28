"""Decodes JSON by machine code that Numba makes of Python; the extra `compiled` brings Numba.

Start with `image_columns`. It declines messages that it cannot parse: the caller reads those with
NumPy and Arrow, as without the extra. Only the formats load it, and only when chosen.
"""
