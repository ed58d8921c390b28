"""Reads rows of a bucket by their keys."""
