"""The Python interface to tables and databases.

This package holds only what users import.
"""
