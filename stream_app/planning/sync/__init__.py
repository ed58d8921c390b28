"""Decides for a job of a whole database which source tables it takes, and into which tables."""
