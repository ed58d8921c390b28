"""Three ways from a JSON record to images: fast, whole and one by one.

Start with `fast_decoding`.
"""
