"""Changelogs that compactions write: the rows of each key before and after."""
