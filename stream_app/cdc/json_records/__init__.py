"""The port `dialect` of all JSON formats, and a decoder that parses similar records together.

Start with `decoder`.
"""
