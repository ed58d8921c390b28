"""Checks everything that a job needs before it runs, and names the remedies."""
