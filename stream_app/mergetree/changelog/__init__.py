"""Writes changelogs in compactions: the rows of each key before and after."""
