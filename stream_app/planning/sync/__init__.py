"""Decides for a job of a whole database which source tables it ingests, and into which tables."""
