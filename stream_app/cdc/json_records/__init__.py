"""Shared by all JSON formats: the port `dialect`, and a decoder that parses similar records
together.

Start with `decoder`.
"""
