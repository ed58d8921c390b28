"""The parts that all JSON formats share: the port `dialect`, and a decoder that parses similar
records together.

Start with `decoder`.
"""
