"""Decodes JSON by machine code that Numba makes of Python; the extra `compiled` brings Numba.

Start with `image_columns`. What this room does not know, it declines: the caller reads such
messages with NumPy and Arrow, as without the extra. Only the formats load it, and only when chosen.
"""
