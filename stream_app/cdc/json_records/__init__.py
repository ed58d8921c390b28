"""What all JSON formats share: the port `dialect`, and a decoder that parses records of one shape
together.

Start with `decoder`.
"""
