"""The Python interface: a table and its methods.

This package holds only what users import.
"""
