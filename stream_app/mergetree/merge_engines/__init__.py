"""Merges the rows of one key into one: a module for each merge engine."""
